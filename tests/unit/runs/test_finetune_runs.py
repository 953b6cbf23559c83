"""Runs of fine-tuning are listed as one, however many seeds they have."""

import json

import pytest

from clozeworks.runs.listing import find_runs, run_state
from clozeworks.storage.locks import locked

SESSION = {"command": ["/bin/clozeworks", "finetune", "classify", "m", "a.csv"], "ranks": 1}
RECIPE = {"task": {"kind": "classify"}, "seeds": [0, 1, 7], "training": {"epochs": 3}}


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "recipe.json").write_text(json.dumps(RECIPE))
    (folder / ".lock").touch()
    return folder


def begin(run, seed, *, kept=None, what="seed"):
    folder = run / f"{what}-{seed}"
    folder.mkdir()
    (folder / "recipe.json").write_text(json.dumps({"training": {"steps": 100}, "task": {}}))
    (folder / "sessions.jsonl").write_text(json.dumps(SESSION) + "\n")
    (folder / "metrics.jsonl").write_text(
        '{"step": 50, "tokens_per_second": 12.0}\n{"step": 50, "evaluation": {"loss": 0.5}}\n'
    )
    if kept is not None:
        (folder / "snapshots" / f"step-{kept:09}").mkdir(parents=True)
    return folder


def end(folder, value, *, higher=True):
    measured = {"primary": "m", "values": {"m": value}, "higher_is_better": higher}
    (folder / "result.json").write_text(json.dumps({"steps": 100, "measured": measured}))


def model(folder):
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text("{}")


def test_from_the_first_step_to_the_end(run):
    found = run_state(run)
    assert (found.state, found.seed, found.seeds, found.go_on) == ("never began", 1, 3, None)
    first = begin(run, 0, kept=40)
    found = run_state(run)
    assert (found.state, found.step, found.steps, found.seed) == ("stopped", 40, 100, 1)
    assert (found.loss, found.value, found.folder) == (0.5, None, run)
    assert found.go_on == "clozeworks finetune classify m a.csv"
    end(first, 0.9)
    second = begin(run, 1, kept=10)
    found = run_state(run)
    assert (found.state, found.step, found.seed) == ("stopped", 10, 2)
    assert (found.metric, found.value) == ("m", 0.9)
    with locked(run):
        found = run_state(run)
        assert (found.state, found.step, found.go_on) == ("running", 50, None)
    end(second, 0.7)
    end(begin(run, 7), 0.8)
    found = run_state(run)
    assert (found.state, found.seed) == ("stopped", 3)  # the best model is not there yet
    assert found.go_on is not None
    model(run)
    found = run_state(run)
    assert (found.state, found.go_on, found.value) == ("finished", None, 0.9)


def test_the_best_value_may_be_the_lowest_and_is_a_number(run):
    end(begin(run, 0), float("nan"), higher=False)
    end(begin(run, 1), 0.7, higher=False)
    end(begin(run, 7), 0.8, higher=False)
    assert run_state(run).value == 0.7


def test_seeds_are_not_listed_by_themselves(run):
    end(begin(run, 0), 0.5)
    assert [found.folder for found in find_runs([run.parent])] == [run]
    alone = run_state(run / "seed-0")
    assert (alone.state, alone.step, alone.value, alone.seeds) == ("finished", 100, 0.5, None)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("recipe.json", "{", "seed-0: recipe.json is no recipe"),
        ("result.json", "[]", "seed-0: result.json is no result"),
        ("result.json", "{}", "seed-0: result.json is no result"),
    ],
)
def test_damage_is_said_with_the_seed(run, name, content, problem):
    (begin(run, 0) / name).write_text(content)
    found = run_state(run)
    assert (found.state, found.problem) == ("damaged", problem)


def test_the_table_has_a_column_for_results(run, capsys):
    from clozeworks.cli.commands.runs import runs

    end(begin(run, 0), 0.5)
    begin(run, 1, kept=20)
    runs(run.parent)
    head, line, hint = capsys.readouterr().out.splitlines()
    assert head.split("  ")[0] == "run" and "held-out loss    result  tokens/s" in head
    assert "stopped  seed 2 of 3, 20 of 100          0.500  m 0.5000        12" in line
    assert hint == f"Go on with {run}: clozeworks finetune classify m a.csv"


def test_trials_of_a_search_come_before_its_seeds(run):
    (run / "search.json").write_text(json.dumps({"plan": {"settings": [{"rate": 1}, {"rate": 2}]}}))
    end(begin(run, 0, what="trial"), 0.9)
    begin(run, 1, what="trial", kept=20)
    found = run_state(run)
    assert (found.state, found.step, found.seed, found.seeds) == ("stopped", 20, 2, 5)
    assert found.trials == 2
    assert found.value is None  # the best of many trials is nobody's result
    assert found.go_on == "clozeworks finetune classify m a.csv"
    end(run / "trial-1", 0.95)
    for seed, value in ((0, 0.7), (1, 0.8), (7, 0.6)):
        end(begin(run, seed), value)
    model(run)
    found = run_state(run)
    assert (found.state, found.value) == ("finished", None)  # 0.8 was chosen, and flatters
    apart = {"primary": "m", "values": {"m": 0.75}}
    plan = json.loads((run / "search.json").read_text())
    done = {**plan, "best_seed": 1, "seeds": {"1": {"apart": apart}}}
    (run / "search.json").write_text(json.dumps(done))
    assert run_state(run).value == 0.75
    (run / "search.json").write_text("{}")
    found = run_state(run)
    assert (found.state, found.problem) == ("damaged", "search.json is no search")
