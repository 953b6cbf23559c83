"""UL2's mixture: how often each denoiser comes, and what it hides."""

import numpy as np
import pytest

from clozeworks.data.examples.example_arrays import lay_out
from clozeworks.errors import SettingError, TokenizerError
from clozeworks.objectives.batch import Vocabularies
from clozeworks.objectives.denoisers import UL2, Denoiser, Denoisers
from clozeworks.objectives.span_corruption import SpanCorruption
from clozeworks.text.tokenizer.templates import Template

END = 1
T5 = Template(((), (END,)), ((), (0,)), (0,))
SENTINELS = {f"<extra_id_{number}>": 399 - number for number in range(100)}
MODES = {"[NLU]": 297, "[NLG]": 298, "[S2S]": 299}
SOURCE = Vocabularies(400, named={**SENTINELS, **MODES}, start_id=0, end_id=END)
LENGTH = 256


@pytest.fixture(scope="module")
def many():
    """4,000 texts and what became of them."""
    generator = np.random.default_rng(0)
    tokens = generator.integers(2, 290, (4000, LENGTH))
    numbers, sizes = np.arange(len(tokens)), np.full((len(tokens), 1), LENGTH)
    words = np.ones(tokens.size, bool)
    clean = lay_out(
        T5, sizes, tokens.ravel(), words, epochs=np.zeros_like(numbers), indices=numbers
    )
    return clean, Denoisers().batch(clean, 3, SOURCE)


def rows(ids, lengths):
    return np.split(ids, np.cumsum(lengths)[:-1])


def test_how_often_each_denoiser_and_each_mode_comes(many, fits):
    _, batch = many
    chosen = batch.targets["denoisers"]["chosen"]
    weights = [part.weight for part in UL2]
    assert sum(weights) == pytest.approx(1) and weights[2] == 0.2
    assert fits(np.bincount(chosen), weights) > 1e-4
    # The usual mistake: all seven alike.
    assert fits(np.bincount(chosen), np.ones(7)) < 1e-6
    first = batch.ids[np.cumsum(batch.lengths) - batch.lengths]
    counts = [(first == MODES[mode]).sum() for mode in ("[NLU]", "[S2S]", "[NLG]")]
    assert sum(counts) == 4000
    assert fits(counts, [4 / 15, 0.2, 8 / 15]) > 1e-4
    expected = [MODES[UL2[number].mode] for number in chosen]
    assert first.tolist() == expected


@pytest.mark.parametrize("number", range(7))
def test_rates_and_spans_of_each_denoiser(many, number):
    _, batch = many
    part = batch.targets["denoisers"]
    own = np.flatnonzero(part["chosen"] == number)
    every = rows(part["answers"], part["lengths"])
    asked = [every[row] for row in own]
    hidden = np.array([np.count_nonzero((ids > 1) & (ids < 300)) for ids in asked])
    spans = np.array([np.count_nonzero(ids >= 300) for ids in asked])
    hide = UL2[number].hide
    assert (hidden == round(hide.fraction * LENGTH)).all()
    if hide.mean is None:
        assert (spans == 1).all() and hidden[0] == 64
        for row, ids in zip(own, asked, strict=True):  # the end of the text, nothing else
            text = many[0].ids[row * (LENGTH + 1) : (row + 1) * (LENGTH + 1)]
            assert ids[1:-1].tolist() == text[-65:-1].tolist()
    else:
        assert (spans == max(round(hidden[0] / hide.mean), 1)).all()


def test_a_denoiser_alone_is_span_corruption(many):
    clean, _ = many
    few = clean.some(np.arange(50))
    alone = Denoisers(parts=(Denoiser(),), modes=False).batch(few, 3, SOURCE)
    plain = SpanCorruption().batch(few, 3, SOURCE)
    assert alone.lengths.tolist() == plain.lengths.tolist()
    assert len(alone.targets["denoisers"]["answers"]) == len(
        plain.targets["span_corruption"]["answers"]
    )
    assert not set(alone.ids.tolist()) & set(MODES.values())


def test_the_choice_does_not_depend_on_the_batch(many):
    clean, batch = many
    some = np.array([7, 3000, 12])
    alone = Denoisers().batch(clean.some(some), 3, SOURCE)
    part, whole = alone.targets["denoisers"], batch.targets["denoisers"]
    assert part["chosen"].tolist() == whole["chosen"][some].tolist()
    expected = [rows(batch.ids, batch.lengths)[number].tolist() for number in some]
    assert [row.tolist() for row in rows(alone.ids, alone.lengths)] == expected
    other = Denoisers().batch(clean.some(np.arange(200)), 4, SOURCE).targets["denoisers"]["chosen"]
    assert other.tolist() != whole["chosen"][:200].tolist()


def test_what_cannot_be_used(many):
    clean = many[0].some(np.arange(20))
    with pytest.raises(TokenizerError) as caught:
        Denoisers().batch(clean, 0, Vocabularies(400, named=SENTINELS, start_id=0, end_id=END))
    assert str(caught.value) == (
        "the tokenizer has no special token [NLU]; it says how an input was made; train a "
        "tokenizer with it: clozeworks tokenizer train … --extra, or set modes to false."
    )
    with pytest.raises(SettingError) as caught:
        Denoisers(parts=())
    assert str(caught.value) == ("parts is empty; a mixture needs at least one denoiser; add one.")
    with pytest.raises(SettingError) as caught:
        Denoiser(weight=0)
    assert str(caught.value) == ("weight is 0; it must be above 0; leave the denoiser out instead.")
