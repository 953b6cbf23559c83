"""Several processes on one run, started by torchrun: the run that one process would make."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file

from clozeworks.data.corpus.build import BuildSettings, build_corpus
from clozeworks.runs.state import read_state
from clozeworks.text.tokenizer.styles import GPT2_STYLE, T5_STYLE
from clozeworks.text.training.train import train_from_iterator

pytestmark = pytest.mark.distributed
SOURCE = Path(__file__).resolve().parents[2] / "src"
NO_DROPOUT = [
    "model.config.hidden_dropout_prob=0.0",
    "model.config.attention_probs_dropout_prob=0.0",
    "training.steps=6",
]
WRITING = """
run = "{run}"
objective = {{kind = "{objective}", examples = {examples}}}
[model]
start = "{start}"
config = {{{config}}}
[data]
corpus = "{corpus}"
[training]
steps = 6
batch_tokens = 512
micro_batch_tokens = 64
learning_rate = 0.001
optimizer = {{kind = "adam_w"}}
schedule = {{kind = "linear", warmup_steps = 3}}
[logging]
every_steps = 1
[evaluation]
every_steps = 3
tokens = 256
"""
PIECES = '{kind = "document_pieces", length = 24}'
GPT2 = "n_embd = 16, n_layer = 2, n_head = 2, resid_pdrop = 0.0, embd_pdrop = 0.0, attn_pdrop = 0.0"
T5 = "d_model = 16, num_layers = 1, num_decoder_layers = 1, num_heads = 2, d_kv = 8, d_ff = 24"
WRITERS = {
    "causal_lm": (GPT2_STYLE, PIECES, "gpt2", GPT2),
    "span_corruption": (
        T5_STYLE, '{kind = "blocks", length = 24}', "t5-v1_1-small", f"{T5}, dropout_rate = 0.0",
    ),
}  # fmt: skip
TIMED = {"seconds", "tokens_per_second", "share_of_peak"}


def lines(run):
    found = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in TIMED} for line in found]


def numbers(value):
    """All numbers of a line, in order."""
    if isinstance(value, dict):
        return [number for key in sorted(value) for number in numbers(value[key])]
    return [value]


def same(one, other, tolerance, model="model"):
    first, second = (load_file(run / model / "model.safetensors") for run in (one, other))
    assert first.keys() == second.keys()
    furthest = max(float((first[name] - second[name]).abs().max()) for name in first)
    assert furthest <= tolerance


def same_curve(one, other):
    first, second = lines(one), lines(other)
    assert [line["step"] for line in first] == [line["step"] for line in second]
    for ours, theirs in zip(first, second, strict=True):
        assert numbers(ours) == pytest.approx(numbers(theirs), rel=1e-5, abs=1e-6)


def done(run):
    return max([int(path.name[5:]) for path in (run / "snapshots").glob("step-*")], default=-1)


def wait_until(condition, seconds=120.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "this takes too long"
        time.sleep(0.01)


def test_two_processes_equal_one(finish, recipe, tmp_path):
    alone, both = tmp_path / "alone", tmp_path / "both"
    said, _ = finish("pretrain", recipe, *NO_DROPOUT, f"run={alone}")
    out, err = finish("pretrain", recipe, *NO_DROPOUT, f"run={both}", ranks=2)
    same(alone, both, 1e-6)
    same_curve(alone, both)
    ours, theirs = out.replace(str(both), ""), said.replace(str(alone), "")
    assert ours.splitlines()[1:] == theirs.splitlines()[1:], "one of the two speaks, once"
    assert err.count(", validation: ") == 3


def test_two_processes_equal_one_with_a_generator_beside_the_model(finish, recipe, tmp_path):
    alone, both = tmp_path / "alone", tmp_path / "both"
    electra = [*NO_DROPOUT, "objective=electra", "model.start=electra-small"]
    electra += ["model.config.num_hidden_layers=2", "model.config.embedding_size=12"]
    finish("pretrain", recipe, *electra, f"run={alone}")
    finish("pretrain", recipe, *electra, f"run={both}", ranks=2)
    same(alone, both, 1e-6)
    same(alone, both, 1e-6, "generator")


@pytest.mark.parametrize("objective", WRITERS)
def test_two_processes_equal_one_with_a_model_that_writes(finish, made_up, objective, tmp_path):
    style, arrangement, start, config = WRITERS[objective]
    # The two are asked for other numbers of tokens, so a mean of their means would be off.
    texts = [made_up(number) for number in range(200)]
    (tmp_path / "text.txt").write_text("\n\n".join(texts), encoding="utf-8")
    tokenizer = train_from_iterator(texts, kind=style.kind, size=400, style=style)
    settings = BuildSettings(validation=0.2, sentences="whole")
    build_corpus([tmp_path / "text.txt"], tmp_path / "corpus", tokenizer, settings, workers=1)
    recipe, alone, both = (tmp_path / name for name in ("recipe.toml", "alone", "both"))
    values = {"objective": objective, "examples": arrangement, "start": start, "config": config}
    recipe.write_text(WRITING.format(run=alone, corpus=tmp_path / "corpus", **values))
    finish("pretrain", recipe)
    finish("pretrain", recipe, f"run={both}", ranks=2)
    same(alone, both, 1e-6)
    same_curve(alone, both)
    assert lines(alone)[-1]["evaluation"][objective]["loss"] > 0


def test_what_is_dropped_is_the_same_twice(finish, recipe, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    for run in (one, two):
        finish("pretrain", recipe, "training.steps=4", f"run={run}", ranks=2)
    same(one, two, 0.0)


def test_a_stop_leaves_a_snapshot_and_the_run_goes_on(start, finish, recipe, tmp_path):
    whole, run = tmp_path / "whole", tmp_path / "run"
    finish("pretrain", recipe, f"run={whole}", ranks=2)
    process = start("pretrain", recipe, ranks=2)
    wait_until(lambda: done(run) >= 2)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=120)
    assert process.returncode != 0
    command = f"torchrun --nproc-per-node 2 -m clozeworks pretrain {recipe}"
    assert err.count(f"nothing is lost. Go on with: {command}\n") == 1, err
    step = done(run)
    assert 2 <= step < 12
    _, err = finish("pretrain", recipe, ranks=2)
    assert f"Going on from step {step} of 12." in err
    same(whole, run, 0.0)
    assert lines(run) == lines(whole)


def test_ctrl_c_reaches_everybody_twice_and_loses_nothing(start, recipe, tmp_path):
    """A terminal tells all processes of the group, and torchrun tells its own once more."""
    run = tmp_path / "run"
    process = start("pretrain", recipe, "training.steps=100000", ranks=2)
    wait_until(lambda: done(run) >= 2)
    children = [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/stat")
        if path.exists() and path.read_text().rsplit(")", 1)[1].split()[1] == str(process.pid)
    ]
    assert len(children) >= 2
    before = done(run)
    for number in (*children, process.pid):
        os.kill(number, signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode != 0 and done(run) >= before
    assert "Stopped after step " in err
    assert f"Stopped after step {done(run):,}; " in err


def test_another_number_of_processes_may_go_on(start, finish, recipe, tmp_path):
    run = tmp_path / "run"
    process = start("pretrain", recipe, *NO_DROPOUT, "training.steps=12")
    wait_until(lambda: done(run) >= 2)
    process.kill()
    process.communicate()
    _, err = finish("pretrain", recipe, *NO_DROPOUT, "training.steps=12", ranks=2)
    assert "not the same to the bit." in err
    whole = tmp_path / "whole"
    finish("pretrain", recipe, *NO_DROPOUT, "training.steps=12", f"run={whole}")
    same(whole, run, 1e-5)


def test_more_processes_than_examples(start, recipe, tmp_path):
    process = start(
        "pretrain", recipe, "training.batch_tokens=30", "data.stages=[{length=24}]", ranks=2
    )
    _, err = process.communicate(timeout=120)
    assert process.returncode != 0
    sentence = (
        "clozeworks: a step has 1 example and there are 2 ranks; each needs at least one; use more "
        "tokens a step or fewer ranks.\n"
    )
    assert sentence in err
    assert not (tmp_path / "run").exists()


def test_examples_that_depend_on_each_other_are_compared_within_a_process(finish, recipe):
    _, err = finish(
        "pretrain", recipe, "objective=simcse", "training.steps=3", "data.stages=[{length=24}]",
        ranks=2,
    )  # fmt: skip
    assert (
        err.count(
            "Each of the 2 processes compares its own examples alone: this is not the run that one "
            "process would make.\n"
        )
        == 1
    )


def test_a_refused_recipe_is_one_sentence_and_no_traceback(start, finish, recipe):
    short = ["training.steps=3"]
    finish("pretrain", recipe, *short)
    process = start("pretrain", recipe, *short, "seed=4", ranks=2)
    _, err = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "was started with another recipe: seed was 3, now 4" in err
    said = (
        err[: err.index("torch.distributed.elastic")] if "torch.distributed.elastic" in err else err
    )
    assert "clozeworks/jobs" not in said


def test_who_is_left_says_so_and_the_run_goes_on(recipe, tmp_path, start):
    """Started by hand, as on two machines, so that nobody ends the one that is left."""
    run = tmp_path / "run"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    settings = ["training.steps=100000", "checkpointing.every_steps=1"]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "clozeworks", "pretrain", str(recipe), *settings],
            env={**os.environ, **shared, "RANK": str(rank), "PYTHONPATH": str(SOURCE)},
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        for rank in (0, 1)
    ]
    try:
        wait_until(lambda: done(run) >= 2)
        processes[1].kill()
        _, err = processes[0].communicate(timeout=120)
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert processes[0].returncode == 2 and "Traceback" not in err
    assert "clozeworks: Process 1 of 2 has lost the others (" in err
    assert err.endswith(
        "): one of them has ended; see what it said, then run the same command again, which "
        "continues from the last snapshot.\n"
    )
    state = read_state(run)
    assert state.status == "failed" and state.continue_command.startswith("torchrun")
    reached = done(run)
    process = start("pretrain", recipe, *settings)
    wait_until(lambda: done(run) > reached)
    process.terminate()
    assert f"from step {reached:,}" in process.communicate(timeout=120)[1]
