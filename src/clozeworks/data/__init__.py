"""Texts in, vectors out, and the batches in between; nothing here knows about models."""
