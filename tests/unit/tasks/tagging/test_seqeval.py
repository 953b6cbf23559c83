"""The same entities and scores as seqeval, on valid and invalid tags."""

import warnings
from itertools import pairwise

import numpy as np
import pytest

from clozeworks.tasks.metrics.tags import entity_counts, entity_f1
from clozeworks.tasks.tagging.entities import entities_of
from clozeworks.tasks.tagging.schemes import BIO, BIOES, IOB1
from clozeworks.tasks.tagging.tags import Spelling

MANY = [200, pytest.param(10_000, marks=pytest.mark.slow)]
STRICT = [("IOB2", BIO, "BI"), ("IOBES", BIOES, "BIES"), ("BILOU", BIOES, "BILU"),
          ("IOB1", IOB1, "BI")]  # fmt: skip


def drawn(letters, count, *, seed=0, behind=False):
    """Random tags: nearly all break some rule, short ones and repeated types being common."""
    rng = np.random.default_rng(seed)
    labels = ["O", *(f"{letter}-{kind}" for letter in letters for kind in ("X", "Y-Z"))]
    if behind:
        labels = ["O", *(f"{label[2:]}-{label[0]}" for label in labels[1:])]
    weights = rng.dirichlet(np.ones(len(labels)), size=count)
    return [rng.choice(labels, size=rng.integers(1, 12), p=row).tolist() for row in weights]


def peer_strict(sentence, name):
    from seqeval import scheme

    found = scheme.Tokens(sentence, getattr(scheme, name)).entities
    return [(entity.tag, entity.start, entity.end) for entity in found]


def is_told_otherwise(sentence):
    """Where seqeval's IOB1 forgets that B ends an entity of another type that is one B long."""
    return any(one[0] == two[0] == "B" and one != two for one, two in pairwise(sentence))


@pytest.mark.parametrize("count", MANY)
@pytest.mark.parametrize("letters", ["BI", "BIES", "IE", "IES"])
@pytest.mark.parametrize("order", ["before", "behind"])
def test_entities(letters, order, count):
    from seqeval.metrics.sequence_labeling import get_entities

    behind = order == "behind"
    for sentence in drawn(letters, count, behind=behind):
        theirs = [(kind, first, last + 1) for kind, first, last in get_entities(sentence, behind)]
        assert entities_of(sentence, spelling=Spelling(order)) == theirs, sentence


@pytest.mark.parametrize("count", MANY)
@pytest.mark.parametrize(("name", "scheme", "letters"), STRICT)
def test_strict_entities(name, scheme, letters, count):
    sentences = drawn(letters, count)
    if scheme is IOB1:
        sentences = [sentence for sentence in sentences if not is_told_otherwise(sentence)]
        assert len(sentences) > count / 2
    found = 0
    for sentence in sentences:
        ours = entities_of(sentence, scheme, spelling=Spelling(), invalid="drop")
        assert ours == peer_strict(sentence, name), sentence
        found += len(ours)
    assert found > count / 4


def test_the_one_case_that_differs():
    sentence = ["I-X", "B-X", "B-Y"]
    assert peer_strict(sentence, "IOB1") == [("X", 0, 1)]
    assert entities_of(sentence, IOB1, invalid="drop") == [("X", 0, 1), ("X", 1, 2)]


@pytest.mark.parametrize("count", MANY)
@pytest.mark.parametrize(
    ("letters", "strict"), [("BI", None), ("BIES", None), ("BI", "IOB2"), ("BIES", "IOBES")]
)
def test_scores(letters, strict, count):
    from seqeval import scheme
    from seqeval.metrics.sequence_labeling import precision_recall_fscore_support as lenient
    from seqeval.metrics.v1 import precision_recall_fscore_support as exact

    gold = drawn(letters, count, seed=1)
    labels = sorted({label for sentence in gold for label in sentence})
    rng = np.random.default_rng(2)
    predicted = [
        [label if rng.random() < 0.8 else str(rng.choice(labels)) for label in sentence]
        for sentence in gold
    ]
    way = {"scheme": {"IOB2": BIO, "IOBES": BIOES}[strict], "invalid": "drop"} if strict else {}
    counts = entity_counts(
        *([entities_of(sentence, **way) for sentence in side] for side in (gold, predicted))
    )
    measure = exact if strict else lenient
    how = {"scheme": getattr(scheme, strict)} if strict else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        micro, macro = (
            measure(gold, predicted, average=average, **how) for average in ("micro", "macro")
        )
        by_type = np.array(measure(gold, predicted, average=None, **how))
    values = entity_f1(counts).values
    assert [values[name] for name in ("precision", "recall", "f1")] == pytest.approx(micro[:3])
    assert values["macro_f1"] == pytest.approx(macro[2])
    assert 0 < values["f1"] < 1
    rows = counts.tallies.by_label(counts.types)
    ours = [(row.precision, row.recall, row.f1, row.support) for row in rows]
    np.testing.assert_allclose(np.array(ours).T, by_type)
