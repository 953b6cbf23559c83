"""Long texts as overlapping windows."""
