"""The parts of a layer and what joins them: norms, feed-forward, embeddings, towers."""
