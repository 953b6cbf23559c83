"""A flipped bit anywhere in a model, tokenizer, corpus or run is found, or changes nothing."""

import json
import os
import random
import shutil
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

import clozeworks as cw
from clozeworks.data.corpus.build import BuildSettings, build_corpus
from clozeworks.data.corpus.corpus import Corpus
from clozeworks.errors import ClozeworksError, InputError
from clozeworks.jobs.finetune import run as runs
from clozeworks.jobs.finetune.job import finetune
from clozeworks.storage import checksums
from clozeworks.text.tokenizer.tokenizer import Tokenizer

ANIMALS = ("cat", "dog", "house")


def rows(count):
    lines = [f"the {ANIMALS[n % 2]} is {'good' if n % 3 else 'bad'} {n % 7}" for n in range(count)]
    labels = ["yes" if n % 3 else "no" for n in range(count)]
    pairs = zip(lines, labels, strict=True)
    return "\n".join(["text,label", *(f"{text},{label}" for text, label in pairs)]) + "\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model, a tokenizer, a corpus, a finished run and one that was stopped."""
    folder = tmp_path_factory.mktemp("made")
    text = "the cat is good. the dog is bad. the house is new."
    tokenizer = cw.Tokenizer.load(_tokenizer(folder / "tokenizer", text))
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    cw.new("bert-tiny", tokenizer, max_position_embeddings=24, **sizes).save(folder / "model")
    (folder / "texts.txt").write_text("\n\n".join(f"{text} {n}" for n in range(30)))
    build_corpus([folder / "texts.txt"], folder / "corpus", tokenizer, BuildSettings(validation=0))
    (folder / "train.csv").write_text(rows(24))
    finetune(recipe(folder, "run", seeds=[0, 1]))
    return folder


def _tokenizer(folder, text):
    from clozeworks.text.training.train import train_from_iterator

    train_from_iterator([text] * 9, kind="wordpiece", size=60).save(folder)
    return folder


def recipe(folder, run, **settings):
    return {
        "run": str(folder / run),
        "model": str(folder / "model"),
        "task": {"kind": "classify"},
        "data": {"train": [str(folder / "train.csv")], "dev_fraction": 0.25},
        "training": {"epochs": 2, "batch_size": 8, "learning_rate": 0.01},
        "checkpointing": {"every_steps": 2},
        **settings,
    }


def flips(folder, places):
    """Flips a bit in place, again and again; `places` chooses where in a file of some size."""
    rng = random.Random(0)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        data = path.read_bytes()
        for place in places(rng, len(data)):
            damaged = bytearray(data)
            damaged[place] ^= 1 << rng.randrange(8)
            path.write_bytes(damaged)
            yield path, place
        path.write_bytes(data)


def some(rng, size):
    """A few places of every file, its first and its last byte among them."""
    return {0, size - 1, *(rng.randrange(size) for _ in range(4))} if size else ()


def one(rng, size):
    """A place of every file."""
    return [rng.randrange(size)] if size else ()


def every_region(rng, size, region=None):
    """A byte of every region of a file, of which small files have small ones."""
    region = region or (4 if size <= 4096 else 64)
    return [min(size - 1, at + rng.randrange(region)) for at in range(0, size, region)]


def answers(folder):
    model = cw.load(folder)
    filled = model.fill("the [MASK] is good", top=3)
    return repr(filled), model.embed("the cat").tobytes()


def encoded(folder):
    tokenizer = Tokenizer.load(folder)
    return tokenizer.fingerprint, tokenizer.special, tokenizer.encode(["the Cat is 3"])[0].ids


def trained_on(folder):
    """What a run would read of a corpus, which it compares with the manifest first."""
    assert not cw.verify(folder).faults
    split = Corpus.open(folder).split("train")
    return [array.tobytes() for array in split.read(0, split.tokens)]


def verified(folder):
    """What people read of a finished run, and its models."""
    faults = cw.verify(folder).faults
    if faults:
        raise ClozeworksError(faults[0])
    names = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    kept = [path for path in names if not path.name.startswith(".") and path.suffix != ".md"]
    return [path.read_bytes() for path in kept]


KINDS = {"model": answers, "tokenizer": encoded, "corpus": trained_on, "run": verified}


def silent(made, tmp_path, kind, places):
    """Where a flipped bit changes something and nobody says so."""
    folder = Path(shutil.copytree(made / kind, tmp_path / kind))
    result = KINDS[kind]
    expected, unnoticed, found = result(folder), [], 0
    for path, place in flips(folder, places):
        try:
            if result(folder) != expected:
                unnoticed.append((str(path.relative_to(folder)), place))
        except (ClozeworksError, AssertionError):
            found += 1
    assert result(folder) == expected
    return unnoticed, found


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_found_or_harmless(made, tmp_path, kind):
    unnoticed, found = silent(made, tmp_path, kind, one if kind == "run" else some)
    assert not unnoticed and found > 20


def test_without_checksums_it_is_neither(made, tmp_path, monkeypatch):
    """That the test above can fail."""
    monkeypatch.setattr(checksums, "digest_of", lambda path, progress=None: "")
    monkeypatch.setattr(checksums, "is_intact", lambda data: True)
    monkeypatch.setattr(checksums, "file_faults", lambda *args, **options: iter(()))
    unnoticed, _ = silent(made, tmp_path, "model", some)
    assert unnoticed


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_region_is_found_or_harmless(made, tmp_path, kind):
    places = partial(every_region, region=256) if kind == "run" else every_region
    unnoticed, found = silent(made, tmp_path, kind, places)
    assert not unnoticed and found > 200


def weights(folder):
    return sha256((folder / "model" / "model.safetensors").read_bytes()).hexdigest()


class Killed(BaseException):
    pass


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_a_run_that_goes_on(made, tmp_path, monkeypatch, every):
    """Killed before its last step, a bit flipped, begun again: the same bits, or a sentence."""
    for name in ("model", "train.csv"):
        (tmp_path / name).symlink_to(made / name)
    stopped, ended = tmp_path / "stopped", recipe(tmp_path, "run")

    def kill(*args):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(runs.FinetuneRun, "_tuned", kill)
        with pytest.raises(Killed):
            finetune(ended)
    shutil.copytree(tmp_path / "run", stopped)
    finetune(ended)
    expected, rng = weights(tmp_path / "run"), random.Random(1)
    files = sorted(path for path in stopped.rglob("*") if path.is_file())
    for path in files[::every]:
        shutil.rmtree(tmp_path / "run")
        shutil.copytree(stopped, tmp_path / "run")
        again = tmp_path / "run" / path.relative_to(stopped)
        data = bytearray(again.read_bytes())
        if not data:
            continue
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        again.write_bytes(data)
        try:
            finetune(ended)
        except ClozeworksError:
            continue
        assert weights(tmp_path / "run") == expected, path.relative_to(stopped)


def test_a_file_that_is_cut_while_it_is_in_use(made, tmp_path):
    """Where it were mapped, the process would end with SIGBUS."""
    folder = Path(shutil.copytree(made / "model", tmp_path / "model"))
    model, expected = cw.load(folder), cw.load(folder).embed("the cat")
    os.truncate(folder / "model.safetensors", 0)
    assert np.array_equal(model.embed("the cat"), expected)
    folder = Path(shutil.copytree(made / "corpus", tmp_path / "corpus"))
    split = Corpus.open(folder).split("train")
    split.read(0, 5)
    path = folder / "train-00000.safetensors"
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(InputError) as caught:
        split.read(0, split.tokens)
    assert str(caught.value) == (
        f"{path} is not a readable shard (it was cut short); put an intact copy in its place, or "
        "build the corpus again with --overwrite."
    )


def test_a_run_stores_equal_weights_once(made):
    linked, config = ("model/model.safetensors", "model/config.json")
    best = json.loads((made / "run" / "metrics.json").read_text())["best_seed"]
    seed = made / "run" / f"seed-{best}"
    assert (made / "run" / linked).samefile(seed / linked)
    assert not (made / "run" / config).samefile(seed / config)
    assert np.isclose(cw.load(made / "run" / "model").embed("cat"), 0).mean() < 1
    assert not list((made / "run").rglob("snapshots"))


def test_saving_one_of_them_leaves_the_other(made, tmp_path):
    run = Path(shutil.copytree(made / "run", tmp_path / "run", copy_function=_linked))
    kept = weights(run)
    other = cw.load(made / "model")
    other.save(run / "model", overwrite=True)
    assert weights(run) != kept == weights(made / "run")


def _linked(source, target):
    Path(target).hardlink_to(source)


def test_snapshots_of_a_finished_seed_go(made, tmp_path, monkeypatch):
    """A session that is killed after it wrote the result leaves them to the next."""
    for name in ("model", "train.csv"):
        (tmp_path / name).symlink_to(made / name)

    def kill(self):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(runs.FinetuneRun, "_remove_snapshots", kill)
        with pytest.raises(Killed):
            finetune(recipe(tmp_path, "run"))
    assert (tmp_path / "run" / "seed-0" / "snapshots").exists()
    finetune(recipe(tmp_path, "run"))
    assert not (tmp_path / "run" / "seed-0" / "snapshots").exists()
    assert cw.verify(tmp_path / "run").intact


def test_room_on_the_disk_is_checked_before_the_first_step(made, tmp_path, monkeypatch):
    from collections import namedtuple

    from clozeworks.errors import OutputError
    from clozeworks.jobs import disk

    for name in ("model", "train.csv"):
        (tmp_path / name).symlink_to(made / name)
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda folder: usage(100_000))
    with pytest.raises(OutputError) as caught:
        finetune(recipe(tmp_path, "run", seeds=[0, 1]))
    assert str(caught.value).startswith(
        f"{tmp_path / 'run'} has 100 kB free; 3 snapshots and 3 models need "
    )
    assert not list((tmp_path / "run").rglob("step-*"))
