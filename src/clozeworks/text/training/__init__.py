"""Training tokenizers and extending them."""
