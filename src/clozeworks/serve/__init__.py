"""Models over HTTP: one process that answers every task of every model it was given."""
