"""Search: vectors and words of documents on disk, and the ways to find the best of them.

Nothing here knows a model: vectors come in and go out as arrays. `jobs/search/` embeds texts.
"""
