"""Pages, charts and model cards, from plain data."""
