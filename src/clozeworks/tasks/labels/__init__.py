"""Labels: their names, theirs and ours, and what a wrong one costs."""
