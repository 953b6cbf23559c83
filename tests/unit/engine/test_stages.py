"""Which step belongs to which stage, how a step is cut, and what any step costs to ask for."""

import numpy as np
import pytest

from clozeworks.engine.stages import Stage, Stages
from clozeworks.objectives.published import published


class Counting:
    """A loader that notes which of its steps were made."""

    def __init__(self, name):
        self.name, self.made = name, []

    def batches(self, start, end):
        for step in range(start, end):
            self.made.append(step)
            yield [self.name, step]

    def epoch_of(self, step):
        return step / 10


@pytest.fixture
def stages():
    return Stages(
        [Stage(Counting("a"), 3, "short"), Stage(Counting("b"), 0, "none"),
         Stage(Counting("c"), 2, "long")]
    )  # fmt: skip


@pytest.mark.parametrize("start", range(7))
def test_any_step_can_be_begun_with(stages, start):
    every = [(0, ["a", 0]), (1, ["a", 1]), (2, ["a", 2]), (3, ["c", 0]), (4, ["c", 1])]
    assert stages.steps == 5
    assert list(stages.batches(start)) == every[start:]
    assert sum(len(stage.loader.made) for stage in stages.stages) == max(5 - start, 0)


def test_where_stages_begin(stages):
    assert stages.begins() == {3: "long"}
    assert [stages.epoch_of(step) for step in range(6)] == [0.0, 0.1, 0.2, 0.0, 0.1, 0.2]


def test_going_on_late_costs_what_beginning_costs(loader, corpus, monkeypatch):
    """Batches are made for the steps that are asked for, and for no other."""
    objective = published("bert", 24)
    made = []
    train = loader(objective)
    real = train.examples.take

    def counted(epoch, chosen):
        made.append(len(chosen))
        return real(epoch, chosen)

    monkeypatch.setattr(train.examples, "take", counted)
    for start in (0, 1_000_000):
        made.clear()
        batches = Stages([Stage(train, 2_000_000)]).batches(start)
        step, pieces = next(batches)
        batches.close()
        assert step == start and sum(made) == train.batch_size
        assert sum(len(piece) for piece in pieces) == train.batch_size


@pytest.mark.parametrize("name", ["bert", "albert", "spanbert", "roberta"])
@pytest.mark.parametrize(("piece", "workers"), [(16, 1), (64, 2), (64, 3), (10_000, 2)])
def test_pieces_are_the_step(loader, name, piece, workers):
    objective = published(name, 24)
    cut = loader(objective, piece=piece, workers=workers).batch(7)
    (whole,) = loader(objective, piece=1 << 20, workers=1).batch(7)
    assert np.array_equal(np.concatenate([each.ids for each in cut]), whole.ids)
    assert np.array_equal(np.concatenate([each.lengths for each in cut]), whole.lengths)
    for part, asked in whole.targets.items():
        answers = np.concatenate([each.targets[part]["answers"] for each in cut])
        assert np.array_equal(answers, asked["answers"])
    tokens = [len(each.ids) for each in cut]
    longest = int(whole.lengths.max())
    assert max(tokens) <= max(piece, sum(tokens) / len(tokens)) + longest
    if len(cut) < len(whole):
        assert len(cut) % workers == 0


def test_examples_that_depend_on_each_other_are_not_cut(loader):
    objective = published("simcse", 24)
    assert len(loader(objective, piece=16, workers=2).batch(0)) == 1
