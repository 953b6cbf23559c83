"""Settings out of range, folders that are no corpus or another one, disks that refuse."""

import errno
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from clozeworks.data.corpus.corpus import Corpus
from clozeworks.storage import atomic
from clozeworks.storage import locks as locking

LOOKS = (["show"], ["verify"], ["batch", "--objective", "roberta"], ["batch"])


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("The cat sat. A dog lay.\n\nThe river.")
    return path


@pytest.fixture
def build(source, tokenizer_folder, tmp_path):
    """The words of a build command; later options go before earlier ones."""

    def words(*more, tokenizer=tokenizer_folder, out=tmp_path / "out"):
        return ["corpus", "build", source, "--tokenizer", tokenizer, "--out", out, *more]

    return words


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--workers", "0"], "--workers is 0; it must be at least 1."),
        (
            ["--validation", "1"],
            "--validation is 1.0; it must be at least 0 and below 1; it is the fraction of "
            "documents that is held out.",
        ),
        (
            ["--validation", "nan"],
            "--validation is nan; it must be at least 0 and below 1; it is the fraction of "
            "documents that is held out.",
        ),
        (["--words", "jeiba"], "segmenter is 'jeiba'; known: jieba. Did you mean 'jieba'?"),
        (
            ["--documents", "lines"],
            'Invalid value "lines" for --documents. Choose from: "blank-line", "file", "line". Did '
            'you mean "line"? See: clozeworks corpus build --help',
        ),
    ],
)
def test_settings_of_a_build(refused, build, more, sentence):
    refused(sentence, *build(*more))


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (
            ["--objective", "robert"],
            "--objective is 'robert'; known: albert, bert, byt5, deberta, deberta-v3, "
            "electra, gpt, gpt2, llama, mt5, prefix-lm, roberta, simcse, spanbert, t5, ul2, xlnet. "
            "Did you mean 'roberta'?",
        ),
        (["--step", "-1"], "--step is -1; it must be at least 0."),
        (
            ["--step", 10**30],
            f"--step is {10**30:,}; it must be below 1,099,511,627,776.",
        ),
        (["--show", "-1"], "--show is -1; it must be at least 0."),
        (
            ["--length", "4"],
            "--length is 4; 3 special tokens and one token of each text need 5; raise length.",
        ),
        (["--tokens", "0"], "--tokens is 0; it must be at least 1."),
        (
            ["--tokens", 10**12],
            "a step has 33,333,333,333 examples and an epoch has 359 examples; a step is at most "
            "5,000 epochs; use fewer tokens a step or more text.",
        ),
        (["--ranks", "0"], "--ranks is 0; it must be at least 1."),
        (["--rank", "2", "--ranks", "2"], "--rank is 2; it must be from 0 to 1."),
        (
            ["--tokens", "20", "--ranks", "64"],
            "a step has 1 example and there are 64 ranks; each needs at least one; use more tokens "
            "a step or fewer ranks.",
        ),
    ],
)
def test_settings_of_a_batch(command, refused, corpus, more, sentence):
    command("corpus", "batch", corpus)  # the index is there
    refused(sentence, "corpus", "batch", corpus, *more)


def test_settings_of_a_page_and_parts(refused, command, build, corpus, source, tmp_path):
    refused(
        "--samples is -1; it must be at least 0.",
        *("corpus", "show", corpus, "--samples", "-1"),
    )
    refused(
        f"{corpus} has no part 'dev'; it has: train, validation; a validation part is held out "
        "when it is built with --validation above 0.",
        *("corpus", "batch", corpus, "--split", "dev"),
    )
    command(*build("--validation", "0.9999999999"))
    refused(
        f"{tmp_path / 'out'} has no part 'train'; it has: validation; every document was held out; "
        "build it with a smaller --validation.",
        *("corpus", "batch", tmp_path / "out"),
    )


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look[-1])
def test_folders_that_are_no_corpus(refused, source, look, tmp_path):
    name, *more = look
    folder = tmp_path / "corpsu"
    refused(
        f"{folder} does not exist; check the name and the folder.",
        *("corpus", name, folder, *more),
    )
    folder.mkdir()
    none = "is not a corpus; a corpus is a folder with a manifest.json; name another one, or build"
    for place in (source, folder):
        refused(
            f"{place} {none} one with `clozeworks corpus build`.",
            *("corpus", name, place, *more),
        )
    (folder / "building").mkdir()
    refused(
        f"{folder} is not finished; its build was interrupted or is still running; run the same "
        "`clozeworks corpus build` again to go on.",
        *("corpus", name, folder, *more),
    )


def test_another_tokenizer(refused, command, corpus, build, tiny_models, tmp_path):
    command(*build())
    refused(
        f"{tmp_path / 'out'} holds a corpus made otherwise: another tokenizer; choose another "
        "folder with --out, or replace it with --overwrite.",
        *build(tokenizer=tiny_models["bert"]),
    )
    opened = Corpus.open(corpus)
    made = opened.tokenizer.fingerprint.removeprefix("sha256:")[:12]
    for path in (corpus / "tokenizer").iterdir():
        path.unlink()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tiny_models["bert"] / name, corpus / "tokenizer")
    from clozeworks.text.tokenizer.tokenizer import Tokenizer

    found = Tokenizer.load(corpus / "tokenizer").fingerprint.removeprefix("sha256:")[:12]
    sentence = (
        f"{corpus / 'tokenizer'} holds another tokenizer ({found}) than the corpus was built with "
        f"({made}); ids would mean other words; put the right one back, or build the corpus again "
        "with --overwrite."
    )
    refused(sentence, "corpus", "show", corpus)
    refused(sentence, "corpus", "batch", corpus)
    outcome = command("corpus", "verify", corpus)
    assert outcome.code == 2 and outcome.err.startswith(f"clozeworks: {sentence} ")
    shutil.rmtree(corpus / "tokenizer")
    refused(
        f"{corpus / 'tokenizer'} has no tokenizer; it must hold tokenizer.json, or vocab.txt, or "
        "vocab.json with merges.txt; copy the files there or name another folder.",
        *("corpus", "show", corpus),
    )


def test_places_that_cannot_be_a_corpus(refused, build, source, tmp_path, tokenizer_folder):
    nothing = tmp_path / "no"
    refused(
        f"{nothing} has no tokenizer; it must hold tokenizer.json, or vocab.txt, or vocab.json "
        "with merges.txt; copy the files there or name another folder.",
        *build(tokenizer=nothing),
    )
    refused(f"{source} is a file; name a folder.", *build(out=source))
    refused(
        f"{source / 'a' / 'b'} cannot be made: {source} is a file; name a folder.",
        *build(out=source / "a" / "b"),
    )
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "thesis.txt").write_text("mine")
    for more in ([], ["--overwrite"]):
        refused(
            f"{taken} holds other files (thesis.txt); a corpus needs a folder of its own; choose "
            "another one with --out.",
            *build(*more, out=taken),
        )


def test_a_corpus_made_otherwise(refused, command, build, tmp_path, hashes):
    out = tmp_path / "out"
    command(*build())
    before = hashes(out)
    refused(
        f"{out} holds a corpus made otherwise: sentences was 'split' and is 'lines'; choose "
        "another folder with --out, or replace it with --overwrite.",
        *build("--sentences", "lines"),
    )
    assert hashes(out) == before
    (out / "manifest.json").write_text('{"made": 3}')
    refused(
        f"{out / 'manifest.json'} is damaged; replace the corpus with --overwrite, or choose "
        "another folder with --out.",
        *build(),
    )
    assert command(*build("--overwrite")).code == 0
    assert hashes(out) == before


def test_two_builds_at_once(command, build, tmp_path):
    out = tmp_path / "out"
    with locking.locked(out):
        outcome = command(*build())
    assert outcome.err == (
        f"clozeworks: {out} is being written by another program; wait for it, or choose another "
        "folder.\n"
    )
    assert command(*build()).code == 0


def test_a_disk_without_locks(command, build, monkeypatch):
    def none(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(locking.fcntl, "flock", none)
    assert command(*build()).code == 0


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_folder_that_may_not_be_written(refused, build, tmp_path, monkeypatch, number):
    def refuse(*_, **__):
        raise OSError(number, os.strerror(number))

    out = tmp_path / "out"
    monkeypatch.setattr(Path, "mkdir", refuse)
    sentence = f"{out} cannot be written ({os.strerror(number)}); choose another folder."
    refused(sentence, *build())
    monkeypatch.undo()
    out.mkdir()
    monkeypatch.setattr(locking.os, "open", refuse)
    refused(sentence, *build())


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_folder_without_permission(refused, build, tmp_path):
    out = tmp_path / "out"
    out.mkdir(mode=0o500)
    refused(f"{out} cannot be written (Permission denied); choose another folder.", *build())


def test_a_read_only_corpus_can_be_looked_into(command, corpus, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    expected = command("corpus", "batch", corpus).out
    shutil.rmtree(corpus / "index")
    monkeypatch.setattr(Path, "mkdir", refuse)
    assert command("corpus", "batch", corpus).out == expected


@pytest.mark.parametrize("wanted", [".safetensors", "train-00000.json", "manifest.json"])
def test_a_full_disk(command, build, tmp_path, monkeypatch, hashes, wanted):
    command(*build(out=tmp_path / "whole"))
    out, real = tmp_path / "out", atomic.os.fsync

    def full(handle):
        name = str(Path(f"/proc/self/fd/{handle}").readlink())
        if wanted in name and name.endswith(".temporary"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    monkeypatch.setattr(atomic.os, "fsync", full)
    outcome = command(*build())
    assert outcome.code == 2
    assert outcome.err.startswith(f"clozeworks: {out}/") and outcome.err.count("\n") == 1
    assert (
        " could not be written: No space left on device; nothing was changed; fix this, or choose "
        "another place.\n"
    ) in outcome.err
    assert not list(out.rglob("*.temporary")) and not (out / "manifest.json").exists()
    monkeypatch.undo()
    again = command(*build())
    assert again.code == 0
    assert ("left by an earlier run" in again.err) == (wanted == "manifest.json")
    assert hashes(out) == hashes(tmp_path / "whole")


def test_a_disk_that_is_really_full(command, build, source, small_disk, made_up):
    source.write_text("\n\n".join(map(made_up, range(3000))))
    outcome = command(*build(out=small_disk / "out"))
    assert outcome.code == 2 and ": No space left on device; " in outcome.err
    subprocess.run(["mount", "-o", "remount,size=8m", small_disk], check=True)
    assert command(*build(out=small_disk / "out")).code == 0
    assert command("corpus", "verify", small_disk / "out").code == 0
