"""Operations on tensors that hold no weights: losses, sampling, CRF, segments."""
