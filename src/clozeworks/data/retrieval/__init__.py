"""Test collections for retrieval: documents, queries, and which document is right for which."""
