"""Tags of words and the entities they spell: schemes, decoding, counting."""
