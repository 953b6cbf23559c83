"""Pre-training: a recipe, a corpus and a model put together."""
