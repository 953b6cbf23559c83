"""Commands that find texts: index, search, duplicates, topics, mine."""
