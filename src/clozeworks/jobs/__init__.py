"""Puts the parts together for one kind of run. No loop inside."""
