"""Training: one loop that knows no model and no task by name."""
