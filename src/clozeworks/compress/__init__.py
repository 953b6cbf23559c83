"""Smaller: a built model changed in place, never a second kind of model."""
