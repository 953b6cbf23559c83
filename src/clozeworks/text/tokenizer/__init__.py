"""Tokenizers: encoding, templates, chat, and the files they are kept in."""
