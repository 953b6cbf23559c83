"""Windows over the stream: all full but the last, nothing lost."""

import numpy as np
import pytest

from clozeworks.data.examples.blocks import Blocks
from clozeworks.errors import SettingError


@pytest.mark.parametrize("length", [3, 10, 64, 100_000])
def test_windows_cover_the_stream(length, drawn, bert, everything):
    split = drawn(40, (1, 20), (1, 40))
    examples = Blocks(length=length).arrange(split, bert, seed=0)
    arranged = everything(examples)
    assert (arranged.ids[~arranged.special] == np.arange(1000, 1000 + split.tokens)).all()
    assert (arranged.lengths[:-1] == length).all()
    assert arranged.lengths[-1] == (split.tokens - 1) % (length - 2) + 3
    assert (arranged.ids[arranged.starts] == 2).all()
    assert (arranged.ids[arranged.starts + arranged.lengths - 1] == 3).all()
    assert arranged.special.sum() == 2 * len(arranged)
    assert np.isclose(examples.mean_length, arranged.lengths.mean())


@pytest.mark.parametrize(("length", "message"), [(2, "length is 2"), (-5, "length is -5")])
def test_a_length_without_room(length, message, drawn, bert):
    with pytest.raises(SettingError) as caught:
        Blocks(length=length).arrange(drawn(1, (1, 1), (5, 5)), bert, seed=0)
    assert str(caught.value) == (
        f"{message}; 2 special tokens and one token of text need 3; raise length."
    )
