"""Regressions on the vectors of a frozen model."""
