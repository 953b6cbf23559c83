"""A corpus on disk: built from documents, in shards, verified."""
