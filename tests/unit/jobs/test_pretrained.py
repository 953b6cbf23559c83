"""What a run says at its end."""

import pytest

from clozeworks.jobs.pretrained import example_of
from clozeworks.text.special import SpecialTokens


class Pieces:
    """What `example_of` asks of a tokenizer."""

    def __init__(self, pieces, mask):
        self.pieces = pieces
        self.special = SpecialTokens(mask=mask)

    def vocabulary(self):
        return self.pieces


@pytest.mark.parametrize(
    ("pieces", "mask", "text"),
    [
        (["the", "cat", "##s"], "[MASK]", "A [MASK] text."),
        (["the", "cat"], "<mask>", "A <mask> text."),
        (["我", "爱", "the", "##s"], "[MASK]", "今天天气很[MASK]。"),
        (["我", *map(str, range(20))], "[MASK]", "A [MASK] text."),
    ],
)
def test_the_gap_to_try_is_in_the_language_of_the_vocabulary(pieces, mask, text):
    assert example_of(Pieces(pieces, mask)) == text
