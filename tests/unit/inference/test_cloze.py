"""Cloze accuracy: ranks, several gaps, words that are not one token, and the sentences."""

import pytest

import clozeworks as cw
from clozeworks.errors import InputError, SettingError
from clozeworks.inference.cloze import TOP, measure_gaps, right_words
from clozeworks.inference.fill import FillCandidate, Filled
from clozeworks.tasks.classify import TextItem

TEXTS = ["the [MASK] sat on the mat", "a [MASK] and the [MASK].", "[MASK] is the capital"]


@pytest.fixture(scope="module", params=["bert", "roberta"])
def model(request, tiny_models):
    return cw.load(tiny_models[request.param])


def guessed(model, ranks):
    """Items whose words stand at these ranks of what the model guesses, 0 for not at all."""
    items = []
    for filled, places in zip(model.fill(TEXTS, top=40), ranks, strict=True):
        words = []
        for guesses, rank in zip(filled.gaps, places, strict=True):
            words.append(guesses[rank - 1].token if rank else guesses[30].token)
        items.append(TextItem(filled.text, tuple(words)))
    return items


def measured(model, items, top=TOP, **options):
    right_words(model.tokenizer, items)
    filled = model.fill([item.text for item in items], top=max(top, 1))
    return measure_gaps(model.tokenizer, items, filled, top=top, **options)


def test_ranks_decide(model):
    found = measured(model, guessed(model, [(1,), (2, 0), (5,)]), intervals=True)
    assert found.values == pytest.approx(
        {
            "accuracy": 1 / 4,
            "accuracy_top_5": 3 / 4,
            "mean_reciprocal_rank": (1 + 1 / 2 + 0 + 1 / 5) / 4,
        }
    )
    assert (found.primary, found.count, found.higher_is_better) == ("accuracy", 3, True)
    for name, (low, high) in found.intervals.items():
        assert 0 <= low <= found.values[name] <= high <= 1
    assert found.intervals["accuracy"] == (0.0, 1.0)
    assert found.notes == (
        "there are 4 gaps in 3 texts; each gap counts.",
        "the reciprocal rank of a word that is not among the best 5 is 0.",
    )
    found = measured(model, guessed(model, [(1,), (2, 0), (5,)]), top=2)
    assert found.values["accuracy_top_2"] == 2 / 4 and not found.intervals
    assert found.values["mean_reciprocal_rank"] == (1 + 1 / 2) / 4


def test_words_as_a_person_writes_them(model):
    """With spaces between them, in any case the tokenizer knows, without the mark of a space."""
    spaced = "Ġ" if model.tokenizer.kind == "bpe" else ""
    items = [TextItem("the [MASK] and the [MASK]", "cat dog")]
    filled = [
        Filled(
            items[0].text,
            [[FillCandidate("cat", f"{spaced}cat", 0.9)], [FillCandidate("x", "x", 0.9)]],
            "",
        )
    ]
    assert measure_gaps(model.tokenizer, items, filled).values["accuracy"] == 0.5
    if not spaced:
        items = [TextItem("the [MASK] and the [MASK]", "CAT dog")]
        assert measure_gaps(model.tokenizer, items, filled).values["accuracy"] == 0.5


def test_a_word_of_several_tokens_is_wrong_and_noted(model):
    items = [TextItem("the [MASK]", "hippopotamus"), TextItem("the [MASK]", "cat")]
    found = measured(model, items)
    assert found.notes[0] == (
        "1 of 2 words is not one token of this model, so no gap can hold it; it counts as wrong."
    )
    found_none = measured(model, [TextItem("the [MASK] [MASK]", "hippopotamus rhinoceros")])
    assert found_none.notes[:2] == (
        "2 of 2 words are not one token of this model, so no gap can hold them; they count as "
        "wrong.",
        "there are 2 gaps in 1 text; each gap counts.",
    )
    assert found.values["accuracy"] <= 0.5


def test_numbers_are_words_too(model):
    assert right_words(model.tokenizer, [TextItem("in [MASK]", "1917")]) == [("1917",)]
    assert right_words(model.tokenizer, [TextItem("<mask> [MASK]", ("a", "b"))]) == [("a", "b")]


@pytest.mark.parametrize(
    ("item", "sentence"),
    [
        (
            TextItem("the cat", "cat", "a.csv, row 2"),
            "a.csv, row 2: the text has no gap; write [MASK] where a word is missing.",
        ),
        (TextItem("the [MASK]"), "text 1 has no label; it must name the right word."),
        (
            TextItem("[MASK] [MASK]", "cat"),
            "text 1: the text has 2 gaps and the label 1 word; each gap has one; write as many, "
            "with spaces between them.",
        ),
    ],
)
def test_what_cannot_be_measured(model, item, sentence):
    with pytest.raises(InputError) as wrong:
        measured(model, [item])
    assert str(wrong.value) == sentence


def test_there_must_be_something_to_measure(model):
    with pytest.raises(InputError, match="there are no items to measure; give at least one"):
        measured(model, [])
    with pytest.raises(SettingError, match="top is 0; it must be at least 1"):
        measured(model, [TextItem("the [MASK]", "cat")], top=0)
