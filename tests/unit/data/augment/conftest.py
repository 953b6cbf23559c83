"""Every way of augmenting, and one item of each kind."""

import pytest

from clozeworks.data.augment.delete import Delete
from clozeworks.data.augment.guess import ReplaceByModel
from clozeworks.data.augment.insert import Insert
from clozeworks.data.augment.replace import Replace
from clozeworks.data.augment.several import Several
from clozeworks.data.augment.swap import Swap
from clozeworks.rng import RandomStream
from clozeworks.tasks.classify import TextItem
from clozeworks.tasks.compare import PairItem
from clozeworks.tasks.spans.questions import AnswerSpan, QuestionItem
from clozeworks.tasks.tagging.items import WordsItem

SYNONYMS = {
    "old": ("ancient", "aged"),
    "cat": ("kitten",),
    "New York": ("Gotham", "the big city"),
    "高兴": ("快乐", "开心"),
    "a": ("one",),
}
WAYS = {
    "delete": Delete(fraction=0.4),
    "swap": Swap(fraction=0.3),
    "neighbours": Swap(fraction=0.3, which="neighbours"),
    "insert": Insert(fraction=0.3, words=("very", "很", "quite so")),
    "insert synonyms": Insert(fraction=0.3, synonyms=SYNONYMS),
    "replace": Replace(fraction=0.5, synonyms=SYNONYMS),
    "guess": ReplaceByModel(fraction=0.3),
    "several": Several(
        parts=(Delete(fraction=0.2), Swap(), Replace(synonyms=SYNONYMS)), probability=0.8
    ),
}
TEXT = 'The old cat sat (very still), in New York, on "a mat": 我很高兴，在北京。 Yes 😀!'


def guess(texts):
    """What a model might say: pieces and marks that are no words, the word itself, and words."""
    return [["##s", ",", "cat", "dog", "river", "狗", "house", "New York"] for _ in texts]


@pytest.fixture(scope="session", name="guess")
def guess_of_a_model():
    return guess


@pytest.fixture(scope="session")
def rng():
    return RandomStream(7, "augment")


@pytest.fixture(params=WAYS, ids=str)
def augment(request):
    """Each way, built."""
    return WAYS[request.param].build(guess)


@pytest.fixture(scope="session")
def ways():
    """All ways by name, as specs."""
    return WAYS


@pytest.fixture(scope="session")
def augment_of():
    """All ways by name."""
    return {name: spec.build(guess) for name, spec in WAYS.items()}


@pytest.fixture(scope="session")
def items():
    """One item of each kind."""
    people = [("Ada", "B-PER"), ("Lovelace", "I-PER"), ("and", "O"), ("Charles", "B-PER")]
    met = [("met", "O"), ("in", "O"), ("old", "O"), ("London", "B-LOC")]
    rest = [(word, "O") for word in (",", "我", "说", "a", "cat", ".")]
    words, tags = zip(("Yesterday", "O"), *people, *met, *rest, strict=True)
    context = "Ada lived in New York. She was born in London, and died in London in 1852."
    answers = [AnswerSpan("London", begin) for begin in (39, 59)] + [AnswerSpan("in London", 36)]
    return [
        TextItem(TEXT, "good", "reviews.csv, row 8"),
        PairItem(TEXT, TEXT, ("x", "y"), "pairs.tsv, row 3"),
        WordsItem.of_words(words, tags, "train.conll, line 1"),
        QuestionItem("Where was the old cat born?", context, tuple(answers), id="q1"),
    ]
