"""Hard negatives are those of sentence-transformers, rule by rule."""

import random

import pytest

import clozeworks as cw
from clozeworks.jobs.search.mine import MiningTexts, mine_negatives
from clozeworks.search.mining import MiningRules

pytestmark = pytest.mark.parity

WORDS = ["cat", "dog", "house", "garden", "mat", "new", "old", "on", "the", "lay", "sat", "its"]


def pairs(seed=0, anchors=25):
    rng = random.Random(seed)
    made = {}
    while len(made) < anchors:
        made[" ".join(rng.choices(WORDS, k=4))] = [
            " ".join(rng.choices(WORDS, k=7)) for _ in range(rng.choice((1, 1, 2, 3)))
        ]
    return [(anchor, each) for anchor, several in made.items() for each in several]


@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"negatives": 5, "relative_margin": 0.001},
        {"absolute_margin": 0.0005, "range_min": 2, "range_max": 20},
        {"max_score": 0.8, "min_score": 0.6, "negatives": 4},
    ],
)
def test_triplets_are_the_same(tiny_models, tmp_path, rules):
    datasets = pytest.importorskip("datasets")
    sentence_transformers = pytest.importorskip("sentence_transformers")
    from sentence_transformers.util import mine_hard_negatives

    folder = cw.load(tiny_models["bert"]).save(tmp_path / "model")
    theirs = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    rows = pairs()
    columns = {"anchor": [a for a, _ in rows], "positive": [p for _, p in rows]}
    others = {
        {"negatives": "num_negatives"}.get(name, name): value for name, value in rules.items()
    }
    mined = mine_hard_negatives(
        datasets.Dataset.from_dict(columns), theirs, verbose=False, **others
    )
    texts = MiningTexts()
    for anchor, positive in rows:
        texts.add_positive(anchor, positive, "")
    out = tmp_path / "o.tsv"
    report = mine_negatives(cw.load(folder), texts, out, MiningRules(**rules)).report
    ours = [tuple(line.split("\t")) for line in out.read_text().splitlines()[1:]]
    assert sorted(ours) == sorted(
        (row["anchor"], row["positive"], row["negative"]) for row in mined
    )
    assert not rules or sum(report.dropped.values()) > 0
