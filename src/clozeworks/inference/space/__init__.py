"""The space of a model's vectors: what is wrong with it, and what repairs it without training."""
