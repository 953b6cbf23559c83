"""Runs of fine-tuning are listed as one, however many seeds and trials they have."""

from pathlib import Path

import pytest

import clozeworks as cw
from clozeworks.jobs.finetune import run as finetuning
from clozeworks.jobs.finetune.job import finetune
from clozeworks.jobs.finetune.search import search
from clozeworks.runs.listing import find_runs
from clozeworks.runs.state import RunState, read_state


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    from clozeworks.text.training.train import train_from_iterator

    tokenizer = train_from_iterator(
        ["the cat is good", "a dog is bad"] * 9, kind="wordpiece", size=80
    )
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16}
    folder = tmp_path_factory.mktemp("start") / "tiny"
    cw.new("bert-tiny", tokenizer, max_position_embeddings=40, **sizes).save(folder)
    return folder


@pytest.fixture
def recipe(start, tmp_path):
    rows = [f"the cat is {word} {n},{word}" for n in range(12) for word in ("good", "bad")]
    (tmp_path / "rows.csv").write_text("\n".join(["text,label", *rows]), encoding="utf-8")
    return {
        "run": str(tmp_path / "run"),
        "model": str(start),
        "task": {"kind": "classify"},
        "data": {"train": [str(tmp_path / "rows.csv")], "dev_fraction": 0.5},
        "training": {"epochs": 1},
        "seeds": [4, 7],
    }


@pytest.fixture
def states(monkeypatch):
    """What the state says when each seed or trial is about to train."""
    seen, real = [], finetuning.FinetuneRun.run

    def run(self):
        seen.append(read_state(self.folder.parent))
        return real(self)

    monkeypatch.setattr(finetuning.FinetuneRun, "run", run)
    return seen


def test_seeds(recipe, states):
    done = finetune(recipe)
    assert [(each.status, each.part, each.folder) for each in states] == [
        ("running", "seed 1 of 2", "seed-4"),
        ("running", "seed 2 of 2", "seed-7"),
    ]
    first = done.results[0].measured
    assert (states[0].value, states[1].value) == (None, first.value)
    ((folder, found),) = find_runs([done.folder.parent]).items()
    assert (folder, found.kind, found.status) == (done.folder, "finetune", "finished")
    assert (found.metric, found.value) == (first.primary, done.best.measured.value)
    assert found.steps is not None and found.step == found.steps
    assert read_state(done.folder / "seed-4").status == "unknown"


def test_a_seed_that_fails(recipe, monkeypatch):
    def broken(self, *_):
        raise RuntimeError("no luck")

    monkeypatch.setattr(finetuning.FinetuneRun, "_trained", broken)
    with pytest.raises(RuntimeError):
        finetune(recipe)
    ((_, found),) = find_runs([Path(recipe["run"])]).items()
    assert (found.status, found.part, found.problem) == ("failed", "seed 1 of 2", "no luck")


def test_trials_of_a_search_come_before_its_seeds(recipe, states):
    found = search({**recipe, "seeds": [4], "search": {"learning_rates": [1e-3, 1e-2]}})
    parts = [(each.kind, each.part, each.folder, each.value) for each in states]
    assert parts == [
        ("search", "trial 1 of 2", "trial-0", None),
        ("search", "trial 2 of 2", "trial-1", None),
        # The best of many trials is nobody's result.
        ("search", "seed 1 of 1", "seed-4", None),
    ]
    state = read_state(found.folder)
    assert (state.status, state.value) == ("finished", found.reported[0].value)


def test_the_table_has_a_column_for_results(tmp_path, capsys):
    from clozeworks.cli.commands.runs import runs

    run = tmp_path / "run"
    run.mkdir()
    command = ("/bin/clozeworks", "finetune", "classify", "m", "a.csv")
    RunState(
        "finetune", "stopped", "seed 2 of 3", "seed-1", 20, 100, 0.5, 12.0, "m", 0.5,
        command=command,
    ).write(run)  # fmt: skip
    runs(tmp_path)
    head, line, hint = capsys.readouterr().out.splitlines()
    assert head.split("  ")[0] == "run" and "held-out loss    result  tokens/s" in head
    assert "stopped  seed 2 of 3, 20 of 100          0.500  m 0.5000        12" in line
    assert hint == f"Continue {run} with: clozeworks finetune classify m a.csv"
