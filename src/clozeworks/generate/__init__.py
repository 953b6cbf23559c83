"""Decoding on tensors: sampling, beam search, logits processors, sessions.

Works on token ids; text and tokenizers are above.
"""
