"""Pieces of documents: each of one, the end where it ends, the beginning where it begins."""

import numpy as np
import pytest

from clozeworks.data.examples.document_chunks import DocumentPieces
from clozeworks.errors import InputError, SettingError
from clozeworks.text.tokenizer.styles import GPT2_STYLE, LLAMA_STYLE
from clozeworks.text.tokenizer.tokenizer import Tokenizer

FIRST = 1000


def byte_level(style):
    from tokenizers.pre_tokenizers import ByteLevel

    tokens = [*style.leading(), *sorted(ByteLevel.alphabet())]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    return Tokenizer(style.build(vocabulary, []), special=style.special)


def reference(lengths, length, opening, end):
    """Document by document, piece by piece."""
    found, place = [], FIRST
    room = length - len(opening) - 1
    for size in (sum(document) for document in lengths):
        tokens = list(range(place, place + size))
        place += size
        pieces = [tokens[begin : begin + room] for begin in range(0, size, room)]
        for number, piece in enumerate(pieces):
            first, last = number == 0, number == len(pieces) - 1
            found.append([*(opening if first else []), *piece, *([end] if last else [])])
    return found


@pytest.mark.parametrize("length", [3, 8, 50])
@pytest.mark.parametrize(("style", "opening", "end"), [(GPT2_STYLE, [], 0), (LLAMA_STYLE, [0], 1)])
def test_pieces_are_those_of_the_loop(length, style, opening, end, numbered, everything):
    rng = np.random.default_rng(length)
    lengths = [rng.integers(0, 20, rng.integers(0, 5)).tolist() for _ in range(60)] + [[1]]
    examples = DocumentPieces(length=length).arrange(numbered(lengths), byte_level(style), 0)
    arranged = everything(examples)
    rows = [row.tolist() for row in np.split(arranged.ids, np.cumsum(arranged.lengths)[:-1])]
    assert rows == reference(lengths, length, opening, end)
    assert arranged.lengths.max() <= length == examples.longest
    assert (arranged.special == (arranged.ids < FIRST)).all()
    assert np.isclose(examples.mean_length, arranged.lengths.mean())


def test_what_cannot_be_arranged(numbered, bert):
    with pytest.raises(InputError, match="the train part has no tokens"):
        DocumentPieces(length=8).arrange(numbered([]), bert, 0)
    with pytest.raises(SettingError) as caught:
        DocumentPieces(length=2).arrange(numbered([[3]]), bert, 0)
    assert str(caught.value) == (
        "length is 2; 2 special tokens and one token of text need 3; raise length."
    )
    nameless = Tokenizer(GPT2_STYLE.build({"a": 0}, []))
    with pytest.raises(SettingError) as caught:
        DocumentPieces(length=8).arrange(numbered([[3]]), nameless, 0)
    assert str(caught.value) == (
        "the tokenizer's last token is None; it says where a document ends; use a tokenizer that "
        "has one, such as GPT-2's, or blocks as examples."
    )
