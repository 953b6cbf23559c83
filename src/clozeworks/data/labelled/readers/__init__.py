"""Readers of labelled layouts: tables, CoNLL, SQuAD, sources and chats."""
