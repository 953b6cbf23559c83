"""What a model can do without training: embed, fill, generate, score, choose."""
