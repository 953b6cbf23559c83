"""BIOES tags: the pipeline of transformers groups them wrongly, our reading does not."""

from types import SimpleNamespace

import numpy as np
import pytest

from clozeworks.tasks.tagging.entities import entities_of
from clozeworks.tasks.tagging.schemes import BIO, BIOES
from clozeworks.tasks.tagging.viterbi import best_path, transitions

pytestmark = pytest.mark.parity

BIOES_LABELS = ["O", "B-PER", "I-PER", "E-PER", "S-PER"]
BIO_LABELS = BIOES_LABELS[:3]


def probabilities(tags, labels, sure=0.9):
    """What a model says that is sure of these tags, (T, K)."""
    scores = np.full((len(tags), len(labels)), (1 - sure) / (len(labels) - 1))
    for word, tag in enumerate(tags):
        scores[word, labels.index(tag)] = sure
    return scores


def theirs(scores, labels, strategy):
    """The entities of the pipeline, as (type, first word, word after the last)."""
    from transformers.pipelines.token_classification import (
        AggregationStrategy,
        TokenClassificationPipeline,
    )

    # What comes after the model needs nothing of a pipeline but names and a way to join words.
    pipeline = object.__new__(TokenClassificationPipeline)
    pipeline.model = SimpleNamespace(config=SimpleNamespace(id2label=dict(enumerate(labels))))
    pipeline.tokenizer = SimpleNamespace(convert_tokens_to_string=" ".join)
    words = [
        {"word": f"w{word}", "scores": row, "start": word, "end": word + 1, "index": word,
         "is_subword": False}
        for word, row in enumerate(scores)
    ]  # fmt: skip
    groups = pipeline.aggregate(words, AggregationStrategy(strategy))
    found = [(group["entity_group"], group["start"], group["end"]) for group in groups]
    return [entity for entity in found if entity[0] != "O"]


def ours(scores, labels, scheme):
    path = best_path(np.log(scores), transitions(labels, scheme))
    return entities_of([labels[number] for number in path], scheme, invalid="refuse")


@pytest.mark.parametrize("strategy", ["simple", "first", "average", "max"])
class TestPipeline:
    def test_one_entity_is_split(self, strategy):
        scores = probabilities(["O", "B-PER", "I-PER", "E-PER", "O"], BIOES_LABELS)
        assert ours(scores, BIOES_LABELS, BIOES) == [("PER", 1, 4)]
        assert theirs(scores, BIOES_LABELS, strategy) == [("PER", 1, 3), ("PER", 3, 4)]

    def test_two_entities_are_merged(self, strategy):
        scores = probabilities(["O", "S-PER", "S-PER"], BIOES_LABELS)
        assert ours(scores, BIOES_LABELS, BIOES) == [("PER", 1, 2), ("PER", 2, 3)]
        assert theirs(scores, BIOES_LABELS, strategy) == [("PER", 1, 3)]

    def test_on_bio_both_agree(self, strategy):
        tags = ["B-PER", "I-PER", "B-PER", "O", "B-PER"]
        scores = probabilities(tags, BIO_LABELS)
        right = [("PER", 0, 2), ("PER", 2, 3), ("PER", 4, 5)]
        assert ours(scores, BIO_LABELS, BIO) == theirs(scores, BIO_LABELS, strategy) == right
