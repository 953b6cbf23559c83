"""Attention on packed tokens: masks, key-value caches, the attention layers."""
