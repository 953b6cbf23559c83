"""SpanBERT's texts: whole sentences of one document, long ones left out, nothing else lost."""

import numpy as np
import pytest

from clozeworks.data.examples.single_sequences import SingleSequences
from clozeworks.errors import InputError, SettingError

CLS, SEP = 2, 3


def reference(lengths, room):
    """The published loop with its end-of-document mistake repaired."""
    place = 0
    found = []
    for document in lengths:
        chunk = []
        for length in document:
            sentence = [*range(place, place + length)]
            place += length
            if chunk and (length > room or len(chunk) + length > room):
                found.append(chunk)
                chunk = []
            if length <= room:
                chunk = chunk + sentence
        if chunk:
            found.append(chunk)
    return found


@pytest.mark.parametrize("length", [3, 12, 40])
@pytest.mark.parametrize("longest", [1, 10, 60])
def test_texts_are_those_of_the_loop(length, longest, numbered, bert, everything, texts):
    rng = np.random.default_rng(longest)
    lengths = [rng.integers(0, longest + 1, rng.integers(0, 9)).tolist() for _ in range(80)]
    lengths.append([1])
    examples = SingleSequences(length=length).arrange(numbered(lengths), bert, seed=0)
    arranged = everything(examples)
    room = length - 2
    assert [example[0] for example in texts(arranged)] == reference(lengths, room)
    assert all(len(example) == 1 for example in texts(arranged))
    assert arranged.lengths.max() <= length == examples.longest
    assert (arranged.ids[arranged.starts] == CLS).all()
    assert (arranged.ids[arranged.starts + arranged.lengths - 1] == SEP).all()
    assert arranged.special.sum() == 2 * len(arranged)
    assert not arranged.types.any() and arranged.labels is None
    assert np.isclose(examples.mean_length, arranged.lengths.mean())


def test_a_long_last_sentence_does_not_take_the_text_before_it_along(
    numbered, bert, everything, texts
):
    examples = SingleSequences(length=12).arrange(numbered([[3, 4, 50], [2]]), bert, seed=0)
    assert texts(everything(examples)) == [[[*range(7)]], [[57, 58]]]


def test_what_cannot_be_arranged(numbered, bert):
    with pytest.raises(InputError) as caught:
        SingleSequences(length=12).arrange(numbered([[11, 50], [99]]), bert, seed=0)
    assert str(caught.value) == (
        "the train part gives no examples; every sentence has more than 10 tokens, the room that a "
        "length of 12 leaves; raise length."
    )
    with pytest.raises(SettingError) as caught:
        SingleSequences(length=0).arrange(numbered([[5]]), bert, seed=0)
    assert str(caught.value) == (
        "length is 0; 2 special tokens and one token of text need 3; raise length."
    )
