"""Labelled examples: read from files, checked, split, changed."""
