"""What lies in the folder of a run: its state, metrics, notes and lock."""
