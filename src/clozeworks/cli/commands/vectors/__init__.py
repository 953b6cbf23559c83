"""Commands about the space of a model's vectors."""
