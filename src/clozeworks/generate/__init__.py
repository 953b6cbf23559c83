"""Texts written token by token: reads what is there, chooses what comes next, knows when to stop.

Works on token numbers; text and tokenizers are above.
"""
