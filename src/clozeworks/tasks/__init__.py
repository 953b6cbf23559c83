"""What a model can be asked to do: one file per task."""
