"""Errors in worker processes are the errors they would be here."""

import inspect

import pytest

from clozeworks import errors
from clozeworks.data.corpus import workers as workers
from clozeworks.data.corpus.build import build_corpus
from clozeworks.data.corpus.chunks import ChunkMaker
from clozeworks.data.corpus.split_writer import ChangedInputError

KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.ClozeworksError)
]
# Python reads this at the start of every process whose path it is on.
CUSTOMIZED = """
from clozeworks import errors
from clozeworks.data.corpus.chunks import ChunkMaker

def make(self, documents):
    raise {error}

ChunkMaker.make = make
"""


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_keeps_its_class_and_its_sentence(kind):
    told = {
        errors.UnknownName: ("words", "jeiba", ["jieba"]),
        errors.MissingExtra: ("--words jieba", "jieba", "chinese"),
        errors.UnfinishedRun: ("run/model", "run"),
        errors.SettingError: ("seed", -1, "it must be at least 0"),
    }
    error = kind(*told.get(kind, ("a.txt is empty; fill it.",)))
    found = workers._rebuilt(workers._kind(error), str(error))
    assert type(found) is kind
    assert str(found) == str(error)


def test_a_kind_of_another_file_becomes_the_nearest_above_it():
    error = ChangedInputError("a.txt has changed; build again.")
    assert workers._kind(error) == "InputError"


@pytest.mark.parametrize(
    ("error", "kind", "sentence"),
    [
        (
            "errors.UnknownName('words', 'jeiba', ['jieba'])",
            errors.UnknownName,
            "words is 'jeiba'; known: jieba. Did you mean 'jieba'?",
        ),
        (
            "ZeroDivisionError('by zero')",
            errors.ClozeworksError,
            "making tokens failed: ZeroDivisionError: by zero",
        ),
    ],
)
def test_a_build_fails_as_it_would_in_one_process(
    texts, tokenizer, tmp_path, monkeypatch, error, kind, sentence
):
    place = tmp_path / "customized"
    place.mkdir()
    (place / "sitecustomize.py").write_text(CUSTOMIZED.format(error=error), encoding="utf-8")
    monkeypatch.syspath_prepend(place)
    before = ChunkMaker.make
    with pytest.raises(errors.ClozeworksError) as caught:
        build_corpus([texts], tmp_path / "out", tokenizer, workers=2)
    assert ChunkMaker.make is before, "this process makes no pieces itself"
    assert type(caught.value) is kind
    assert str(caught.value) == sentence
