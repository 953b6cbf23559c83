"""A space in words and on a page; the repair of a model, judged on others' texts and on pairs."""

import json
import random
import re

import numpy as np
import pytest

import clozeworks as cw
from clozeworks.display.space_text import space_text
from clozeworks.errors import InputError, SettingError
from clozeworks.inference.space.measures import TextFacts, measure_space
from clozeworks.inference.space.repair import fit_repair
from clozeworks.inference.space.report import SpaceReport
from clozeworks.jobs.space import ScoredPair, look, try_repair
from clozeworks.reports.space_page import space_page
from clozeworks.tasks.metrics.difference import Difference

WORDS = ["the", "cat", "sat", "on", "mat", "and", "dog", "lay", "in", "garden", "Paris", "house"]


def made_texts(count):
    rng = random.Random(0)
    return [" ".join(rng.choices(WORDS, k=rng.randint(3, 9))) for _ in range(count)]


TEXTS = list(dict.fromkeys(made_texts(260)))
FACTS = TextFacts(np.arange(300) % 9, np.linspace(0, 1, 300))


def space(shift=0.0, scale=1.0, seed=0):
    x = np.random.default_rng(seed).normal(size=(300, 20)) * np.linspace(scale, 1, 20) + shift
    return measure_space(x, FACTS)


def report(before, after=None, **options):
    return SpaceReport("model", "mean pooling", before, after, "whitened", **options)


def scored(first, second, low, high):
    return Difference("spearman", first, second, low, high, 0.5, True, 100)


def test_a_cone_is_named():
    found = report(space(shift=3)).findings()
    assert found[0] == (
        "Two random texts have a cosine of 0.90: all vectors lie in a narrow cone, and a high "
        "cosine says little."
    )
    assert report(space()).findings() == [
        "Nothing stands out: texts are spread over many directions."
    ]
    assert report(space(shift=0.7)).findings()[0].endswith("though not a narrow cone.")


def test_a_direction_and_a_dimension_are_named():
    x = np.random.default_rng(0).normal(size=(300, 20)) * 0.1
    x[:, 3] += 5 + x[:, 4]
    x[:, 4] *= 30
    found = report(measure_space(x, FACTS)).findings()
    assert (
        "Dimension 3 alone makes 100% of that; a few large dimensions decide the cosine." in found
    )
    assert any(re.match(r"One direction has \d\d% of the variance; the vectors use 1 of", line)
               for line in found)  # fmt: skip


def test_lengths_count_unless_vectors_are_scaled():
    x = np.random.default_rng(0).normal(size=(300, 20)) * np.linspace(1, 9, 300)[:, None]
    said = "The length of a vector follows how frequent the words of a text are (Spearman 0.9"
    assert report(measure_space(x, FACTS)).findings()[0].startswith(said)
    assert not any(
        "length" in line for line in report(measure_space(x, FACTS), scaled=True).findings()
    )


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (
            report(space(shift=3), space(), pairs=scored(0.8, 0.7, -0.12, -0.08)),
            "The repair hurts: Spearman on 100 pairs is 0.700 after it and 0.800 before "
            "(difference -0.120 to -0.080, 95 %); keep the model as it is.",
        ),
        (
            report(space(shift=3), space(), pairs=scored(0.6, 0.7, 0.08, 0.12), trained=True),
            "The repair helps: Spearman on 100 pairs is 0.700 after it and 0.600 before "
            "(difference 0.080 to 0.120, 95 %).",
        ),
        (
            report(space(shift=3), space(), pairs=scored(0.6, 0.61, -0.01, 0.03)),
            "The repair makes no difference that could be measured: Spearman on 100 pairs is "
            "0.610 after it and 0.600 before (difference -0.010 to 0.030, 95 %).",
        ),
        (
            report(space(), space(scale=30), trained=True),
            "The space is less even than before: the mean cosine goes from 0.00 to 0.00, IsoScore "
            "from 0.93 to 0.51. The repair was computed from too few texts for 20 dimensions; give "
            "ten times as many, or keep fewer dimensions (--dimensions).",
        ),
        (
            report(space(shift=3), space(), trained=True),
            "This is a sentence model, trained to compare texts, and a repair may well make it "
            "worse, although the mean cosine goes from 0.90 to 0.00, IsoScore from 0.93 to 0.93; "
            "measure it with scored pairs: --pairs FILE.",
        ),
        (
            report(space(seed=1), space()),
            "There was little to repair: the mean cosine goes from 0.00 to 0.00, IsoScore from "
            "0.94 to 0.93.",
        ),
        (
            report(space(shift=3), space()),
            "The space is more even: the mean cosine goes from 0.90 to 0.00, IsoScore from 0.93 to "
            "0.93. Whether texts are compared better only scored pairs can tell: --pairs FILE.",
        ),
        (report(space()), ""),
    ],
)
def test_verdicts(made, sentence):
    assert made.verdict() == sentence


def test_the_printed_page():
    text = space_text(report(space(shift=3), space(), notes=("A note.",)))
    lines = text.splitlines()
    assert lines[0] == "model: 300 texts, 20 dimensions" and lines[2] == "repair: whitened"
    assert re.search(
        r"^mean cosine +0\.90\d +-?0\.00\d  of two random texts; 0 is best$", text, re.M
    )
    assert re.search(r"^ +0\.9 to 1\.0 +\d\d\.\d% +█+$", text, re.M)
    assert lines[-1] == "note: A note." and "alignment" not in text
    assert "after" not in space_text(SpaceReport("m", "p", space()))


def test_the_page_with_pictures():
    pairs = scored(0.8, 0.7, -0.12, -0.08)
    page = space_page(report(space(shift=3), space(), pairs=pairs, spearman=0.8))
    titles = re.findall(r'aria-label="([^"]+)"', page)
    assert titles == [
        *("Spectrum", "Cosines of random pairs", "Hubs", "Length and frequency"),
        *("Map before", "Map after"),
    ]
    assert "The repair hurts: Spearman on 100 pairs is" in page and "Spearman on pairs" in page
    alone = space_page(SpaceReport("<u>", "p", space()))
    assert "&lt;u&gt;" in alone and "<u>" not in alone and 'aria-label="Map"' in alone


def test_json_holds_every_measure():
    record = json.loads(json.dumps(report(space(shift=3), space()).to_dict()))
    assert record["before"]["mean_cosine"] > 0.8 > record["after"]["mean_cosine"]
    assert len(record["before"]["spectrum"]) == 20 and sum(record["before"]["cosines"]) == 44_850
    assert set(record) >= {"findings", "verdict", "notes", "pairs", "repair"}


def test_the_space_of_a_model(tiny_models):
    model = cw.load(tiny_models["bert"])
    found = model.space([*TEXTS, TEXTS[0]], pairs=[("the cat", "the cat"), ("the dog", "Paris")])
    vectors = model.embed(TEXTS, normalize=False)
    facts = model.text_facts(TEXTS, {})
    assert found.texts == len(TEXTS) and found.alignment > 0
    assert found.mean_cosine == pytest.approx(measure_space(vectors, facts).mean_cosine, abs=1e-6)
    assert facts.lengths[0] == len(TEXTS[0].split()) + 2
    with pytest.raises(InputError) as caught:
        model.space(["the cat", "the cat", "the dog"])
    assert str(caught.value) == (
        "there are 2 different texts; a space needs at least 3, and some hundreds to be measured; "
        "give more."
    )


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("method", ["whiten", "centre", "all-but-the-top", "pca"])
def test_a_mended_model(tiny_models, tmp_path, method, normalize):
    model = cw.load(tiny_models["bert"])
    model.pooling = cw.Pooling(normalize=normalize)
    before = model.embed(TEXTS, normalize=False)
    dimensions = 8 if method in ("whiten", "pca") else None
    repair = model.whiten(TEXTS, method=method, dimensions=dimensions)
    expected = fit_repair(before, method, dimensions).apply(before)
    np.testing.assert_allclose(model.embed(TEXTS, normalize=False), expected, atol=1e-3)
    assert model.pooling.normalize == normalize and repair.dimensions == (dimensions or 32)
    again = cw.load(model.save(tmp_path / "repaired"))
    np.testing.assert_array_equal(again.embed(TEXTS), model.embed(TEXTS))
    model.whiten(TEXTS, method="centre")  # a second one comes after the first
    assert len(model.pooling.steps) == 2


def test_a_repair_is_judged_on_other_texts_and_on_pairs(tiny_models):
    model = cw.load(tiny_models["bert"])
    rng = random.Random(1)
    pairs = [ScoredPair(rng.choice(TEXTS), rng.choice(TEXTS), n / 40) for n in range(40)]
    pairs += [ScoredPair(text, text, 5.0) for text in TEXTS[:10]]
    made, repair = try_repair(model, TEXTS, dimensions=8, pairs=pairs)
    held = round(0.2 * len(TEXTS))
    assert made.before.texts == made.after.texts == held and made.after.dimensions == 8
    assert made.notes == (
        f"Measured on {held} texts, after a repair computed from the {len(TEXTS) - held} others.",
    )
    assert repair.texts == len(TEXTS) and not model.pooling.steps
    assert made.pairs.first == made.spearman and made.pairs.count == 50
    assert made.before.alignment == pytest.approx(0, abs=1e-6)  # of the equal ones alone
    # Of the texts it was computed from the covariance would be exactly 1.
    assert 0.5 < made.after.iso_score < 0.99


def test_too_few_texts_to_hold_some_out(tiny_models):
    model = cw.load(tiny_models["bert"])
    made, _ = try_repair(model, TEXTS[:36], pairs=[ScoredPair("the cat", "the dog")])
    assert made.notes == (
        "36 texts are too few to hold some out: measured on texts that the repair was computed "
        "from.",
    )
    assert made.pairs is None and made.after.alignment > 0
    with pytest.raises(InputError, match=r"^there are 20 texts for 32 dimensions; a direction"):
        try_repair(model, TEXTS[:20])
    with pytest.raises(SettingError, match=r"^dimensions is 40; vectors have 32 dimensions;"):
        model.whiten(TEXTS, dimensions=40)


def test_texts_are_drawn_and_repeated_ones_left_out(tiny_models):
    model = cw.load(tiny_models["bert"])
    made = look(model, [*TEXTS, *TEXTS[:2]], limit=50)
    assert made.before.texts == 50
    assert made.notes == (
        "2 repeated texts were left out.",
        f"50 of {len(TEXTS)} texts were drawn at random.",
    )
    same = look(model, [*TEXTS, *TEXTS[:2]], limit=50)
    assert same.before.mean_cosine == made.before.mean_cosine
    assert look(model, TEXTS, limit=50, seed=1).before.mean_cosine != made.before.mean_cosine
