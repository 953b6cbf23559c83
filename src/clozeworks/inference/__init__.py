"""What a model can be asked without training: embed, fill, generate, score, choose."""
