"""Published sets: as many items, labels and columns as their owners state."""

from collections import Counter
from pathlib import Path

import pytest

from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.labels import check_labels
from clozeworks.data.labelled.reading import Reading
from clozeworks.data.labelled.splitting import split
from clozeworks.errors import InputError
from clozeworks.tasks.task import read_labelled

DATA = Path(__file__).resolve().parents[4].parent / "shared" / "data"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not DATA.is_dir(), reason="the real data folder is not here"),
]
UPOS = (
    *("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON"),
    *("PROPN", "PUNCT", "SCONJ", "SYM", "VERB", "X"),
)
SETS = [
    ("classify/sst2/{}.tsv", "classify", ("train", "dev"), (67_349, 872), ("0", "1"), {}),
    ("classify/cola/{}.tsv", "classify", ("train", "dev"), (8_551, 1_043), ("0", "1"), {}),
    (
        *("classify/chnsenticorp/{}.tsv", "classify", ("train", "dev"), (9_600, 1_200)),
        *(("negative", "positive"), {"text": "1", "label": "2"}),
    ),
    (
        *("pair/rte/{}.tsv", "compare", ("train", "dev"), (2_490, 277)),
        *(("entailment", "not_entailment"), {}),
    ),
    ("pair/mrpc/msr_{}.tsv", "compare", ("train", "test"), (4_076, 1_725), ("0", "1"), {}),
    ("pair/stsb/{}.tsv", "compare", ("train", "dev"), (5_749, 1_500), (), {}),
    (
        *("pair/snli/cat_{}.tsv", "compare", ("train", "test"), (18_000, 2_000)),
        *(("1", "2", "3"), {"first": "3", "second": "4", "label": "1"}),
    ),
    (
        *("tag/conll2003/{}.bio", "tag", ("train", "dev"), (14_041, 3_250)),
        ("B-LOC", "B-MISC", "B-ORG", "B-PER", "I-LOC", "I-MISC", "I-ORG", "I-PER", "O"),
        {},
    ),
    ("tag/ewt_pos/{}.conllu", "tag", ("train", "dev"), (12_544, 2_001), UPOS, {}),
    ("tag/resume_zh/resume.{}.bmes", "tag", ("train", "dev"), (3_821, 463), None, {}),
    ("answer/squad_v1_{}.json", "answer", ("train", "dev"), (7_788, 1_190), (), {}),
    ("answer/squad_v2_{}.json", "answer", ("train", "dev"), (4_065, 2_013), (), {}),
]


def find(pattern, part):
    path = DATA / pattern.format(part)
    return path if path.is_file() else path.with_name(path.name + ".gz")


@pytest.mark.parametrize(("pattern", "task", "parts", "sizes", "labels", "columns"), SETS)
def test_published_sets(pattern, task, parts, sizes, labels, columns):
    bad = BadRows()
    train = read_labelled(find(pattern, parts[0]), task, Reading(columns=columns), bad=bad)
    dev = read_labelled(find(pattern, parts[1]), task, train.reading, bad=bad)
    assert (len(train.items), len(dev.items)) == sizes
    assert not bad.repaired
    checked = check_labels(train, dev)
    assert labels is None or checked.labels == labels
    kept, held_out = split(train.items, 0.1, 0)
    assert abs(len(held_out) / len(train.items) - 0.1) < 0.01
    assert len(kept) + len(held_out) == len(train.items)


def test_impossible_questions_are_as_many_as_stated():
    for part, impossible in (("train", 2_155), ("dev", 1_013)):
        items = read_labelled(find("answer/squad_v2_{}.json", part), "answer").items
        assert Counter(item.impossible for item in items)[True] == impossible
        assert all(bool(item.answers) != item.impossible for item in items)


@pytest.mark.parametrize(
    ("path", "task", "example"),
    [
        ("classify/chnsenticorp/train.tsv.gz", "classify", "--columns text=1,label=2,"),
        ("pair/snli/cat_train.tsv.gz", "compare", "--columns first=3,second=4,label=1,"),
    ],
)
def test_missing_headers_are_noticed(path, task, example):
    with pytest.raises(InputError, match=example):
        read_labelled(DATA / path, task)
