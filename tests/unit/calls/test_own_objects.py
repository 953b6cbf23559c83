"""Losses, metrics and tasks of a user's own are trained with, saved and loaded."""

import hashlib
import json

import pytest
import torch
import torch.nn.functional as F

import clozeworks as cw
from clozeworks.errors import (
    CheckpointError,
    SettingError,
)
from clozeworks.spec import spec


def digest(result):
    return hashlib.sha256((result.model / "model.safetensors").read_bytes()).hexdigest()


def focal(logits, labels):
    """Focal loss, a number for each label."""
    costs = F.cross_entropy(logits, labels, reduction="none")
    return (1 - (-costs).exp()) ** 2 * costs


def test_a_loss_of_ones_own_is_learned_by(start, tuned):
    same = tuned(start, loss=lambda x, y: F.cross_entropy(x, y, reduction="none"))
    plain = tuned(start)
    assert digest(same) == digest(plain)
    assert digest(tuned(start, loss=focal)) != digest(plain)
    # Whatever the micro-batches: sums and counts, never means.
    steady = {"kind": "adam_w", "eps": 1.0}  # tiny gradients stay tiny
    cut = tuned(start, loss=focal, micro_batch_tokens=16, optimizer=steady)
    whole = tuned(start, loss=focal, optimizer=steady)
    left, right = (each.load().model.state_dict() for each in (cut, whole))
    assert all(torch.allclose(left[name], right[name], atol=1e-7) for name in right)
    records = [json.loads(line) for line in (whole.folder / "seed-0/metrics.jsonl").open()]
    evaluated = [each["evaluation"]["classify"]["loss"] for each in records if "evaluation" in each]
    logits = torch.stack(
        [torch.tensor(whole.load().logits(each.text).logits) for each in whole.data.dev]
    )
    labels = torch.tensor([("no", "yes").index(item.label) for item in whole.data.dev])
    assert evaluated[-1] == pytest.approx(focal(logits, labels).mean().item(), abs=1e-4)


def test_tags_have_a_loss_of_ones_own_too(start, tuned, frame):
    rows = [
        {"tokens": text.split(), "tags": ["O"] * 3 + ["B-X", "O"]} for text in frame.text.tolist()
    ]
    shapes = []

    def counting(logits, labels):
        shapes.append((logits.ndim, labels.shape == logits.shape[:1]))
        return F.cross_entropy(logits, labels, reduction="none")

    assert tuned(start, rows, task="tag", loss=counting).model is not None
    assert set(shapes) == {(2, True)}


def test_a_metric_of_ones_own_chooses(start, tuned):
    def caution(gold, predicted):
        return sum(each == "no" for each in predicted) / len(gold)

    result = tuned(start, metric=caution)
    assert result.best.measured.primary == "caution" and "accuracy" in result.metrics
    assert tuned(start, metric="macro_f1").best.measured.primary == "macro_f1"


@pytest.fixture
def hedged():
    """A task that is defined here, and not found by other tests."""

    @spec
    class Hedged(cw.tasks.Classify):
        """Labels that are never wholly certain."""

        doubt: float = 0.1

        def decode(self, item, windows, logits):
            answer, even = super().decode(item, windows, logits), self.doubt / len(self.labels)
            scores = {k: (1 - self.doubt) * v + even for k, v in answer.scores.items()}
            return type(answer)(answer.label, scores[answer.label], scores)

    yield Hedged
    Hedged.is_slot = True


def test_a_task_of_ones_own_is_trained_saved_and_loaded(start, hedged, tuned, frame):
    result = tuned(start, task=hedged(labels=("yes", "no"), doubt=0.5))
    loaded = result.load()
    assert type(loaded.task) is hedged and loaded.task.doubt == 0.5
    answer = loaded.predict(["the cat is bad 1"])[0]
    assert max(answer.scores.values()) <= 0.75
    assert loaded.evaluate(frame, quiet=True).count == len(frame)
    assert type(tuned(start, task=hedged).load().task) is hedged
    # Where its class is not known, the folder says so.
    hedged.is_slot = True
    with pytest.raises(CheckpointError) as caught:
        result.load().predict(["a text"])
    assert str(caught.value) == (
        f"{result.model} was trained for the task 'hedged', which is not known here; "
        "import the module that defines its class first, or ask for what needs no task."
    )


def test_a_task_that_is_defined_again_is_the_new_one(start, tuned):
    from clozeworks.tasks.task import task_classes

    def define():
        @spec
        class Redefined(cw.tasks.Classify):
            pass

        return Redefined

    first, second = define(), define()
    assert task_classes()["redefined"] is second
    with pytest.raises(SettingError, match="another task is called 'redefined', too; rename"):
        tuned(start, task=first)
    first.is_slot = second.is_slot = True


def test_published_folders_are_read_as_before(start, tmp_path, frame):
    class Aardvark(cw.tasks.Tag):
        pass

    class Antelope(cw.tasks.Classify):
        pass

    tagger = start.for_task(cw.tasks.Tag(labels=("O", "B-A", "I-A")))
    del tagger.checkpoint.notes["task"]
    assert type(tagger.task) is cw.tasks.Tag
    classifier = start.for_task(cw.tasks.Classify(labels=("no", "yes")))
    del classifier.checkpoint.notes["task"]
    assert classifier.evaluate(frame, quiet=True).task.item_type is cw.tasks.TextItem
    assert type(classifier.evaluate(frame, quiet=True).task) is cw.tasks.Classify
    Aardvark.is_slot = Antelope.is_slot = True
