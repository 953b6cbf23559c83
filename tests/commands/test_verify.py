"""`clozeworks verify`, and what loading says about files that are not as they were saved."""

import json
import shutil
from pathlib import Path

import pytest

import clozeworks as cw
from clozeworks.errors import CheckpointError, InputError, OutputError, SettingError, TokenizerError
from clozeworks.jobs import verify as verifying
from clozeworks.storage import checksums


def flip(path, place=-1, bit=0):
    data = bytearray(path.read_bytes())
    data[place] ^= 1 << bit
    path.write_bytes(data)


def advice(folder):
    return (
        "restore it, or, if the change is meant, accept it with: clozeworks verify "
        f"{folder} --accept"
    )


def test_a_model_that_is_whole(command, bert_model):
    shown = command("verify", bert_model)
    assert shown.code == 0 and shown.err == ""
    lines = shown.out.splitlines()
    count = len(json.loads((bert_model / "clozeworks.json").read_text())["files"])
    assert lines == [
        f"{bert_model}: {count} files compared with the size and sha256 of when it was saved.",
        f"{bert_model}: 42 weights of the shapes that config.json asks for, all finite.",
        f"{bert_model}: the tokenizer does not contradict itself.",
        f"{bert_model}: nothing is wrong with this model.",
    ]
    found = cw.verify(bert_model)
    assert found.intact and found.kind == "model" and found.faults == []


def test_a_flipped_bit_of_the_weights(command, refused, bert_model):
    path = bert_model / "model.safetensors"
    flip(path)
    refused(
        f"{path} is not as it was saved: its content is another; {advice(bert_model)}",
        *("fill", bert_model, "a [MASK]"),
    )
    refused(
        f"1 fault:\n{path} is not as it was saved: its content is another; restore it.",
        *("verify", bert_model),
    )
    assert command("verify", bert_model, "--accept").code == 0
    assert command("fill", bert_model, "a [MASK]").code == 0


def test_every_fault_is_named(command, bert_model):
    for name in ("config.json", "vocab.txt"):
        flip(bert_model / name)
    (bert_model / "tokenizer_config.json").unlink()
    shown = command("verify", bert_model, "--json")
    found = json.loads(shown.out)
    assert shown.code == 2 and shown.err == "clozeworks: 3 faults.\n" and not found["intact"]
    assert sorted(found["faults"]) == [
        f"{bert_model / 'config.json'} is not as it was saved: its content is another; restore it.",
        f"{bert_model / 'tokenizer_config.json'} is not there, but was saved with this folder; "
        "restore it.",
        f"{bert_model / 'vocab.txt'} is not as it was saved: its content is another; restore it.",
    ]


def test_the_list_answers_for_itself(bert_model):
    path = bert_model / "clozeworks.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 2'))
    sentence = (
        f"{path} is not as it was saved: its checksum is that of another content; "
        f"{advice(bert_model)}"
    )
    with pytest.raises(CheckpointError) as caught:
        cw.load(bert_model)
    assert str(caught.value) == sentence
    assert cw.verify(bert_model).faults == [sentence]


@pytest.mark.parametrize(
    ("name", "size"), [("a\x00", 1), ("a\ud800", 1), ("a", -1), ("a", 10**400), ("a", 1.0)]
)
def test_a_list_of_what_cannot_be_files(bert_model, name, size):
    path = bert_model / "clozeworks.json"
    entry = {name: {"bytes": size, "sha256": "0" * 64}}
    path.write_text(json.dumps({**json.loads(path.read_text()), "files": entry}))
    notes = json.loads(path.read_text())
    del notes["checksum"]
    path.write_text(json.dumps(notes))
    with pytest.raises(CheckpointError) as caught:
        cw.load(bert_model)
    assert str(caught.value).startswith(f"{path} is not as it was saved: ")


def test_a_card_may_be_edited_and_a_file_added(bert_model):
    (bert_model / "README.md").write_text("edited")
    (bert_model / "chart.txt").write_text("added")
    cw.load(bert_model)
    found = cw.verify(bert_model)
    assert found.intact
    assert found.notes == [f"{bert_model / 'chart.txt'} was added later; it has no checksum."]


def test_a_folder_that_somebody_else_wrote(command, bert_model):
    (bert_model / "clozeworks.json").unlink()
    found = cw.verify(bert_model)
    assert found.intact
    assert found.notes == [
        f"{bert_model} has no checksums to compare its files with; record those of today with: "
        f"clozeworks verify {bert_model} --accept"
    ]
    assert command("verify", bert_model, "--accept").code == 0
    flip(bert_model / "model.safetensors")
    with pytest.raises(CheckpointError, match="its content is another"):
        cw.load(bert_model)


def test_what_is_damaged_is_not_accepted(bert_model):
    path = bert_model / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-8])
    before = (bert_model / "clozeworks.json").read_bytes()
    found = cw.verify(bert_model, accept=True)
    assert "is damaged or was cut short" in found.faults[0]
    assert (bert_model / "clozeworks.json").read_bytes() == before


def test_a_tokenizer_by_itself(command, bert_model, tmp_path):
    folder = tmp_path / "tokenizer"
    cw.Tokenizer.load(bert_model).save(folder)
    assert cw.verify(folder).kind == "tokenizer" and cw.verify(folder).intact
    path = folder / "tokenizer.json"
    path.write_text(path.read_text().replace('"version": "1.0"', '"version": "1.0" '))
    with pytest.raises(TokenizerError) as caught:
        cw.Tokenizer.load(folder)
    assert str(caught.value) == (
        f"{path} is not as it was saved: its size is another; {advice(folder)}"
    )
    assert len(cw.verify(folder).faults) == 1
    assert command("verify", folder, "--accept").code == 0
    assert cw.Tokenizer.load(folder).size


def test_other_folders(refused, tmp_path):
    with pytest.raises(InputError, match="is not there; name the folder of a model"):
        cw.verify(tmp_path / "nothing")
    refused(
        f"{tmp_path} is neither a model nor a tokenizer, adapter, corpus, run or index; name "
        "another folder.",
        *("verify", tmp_path),
    )


def test_a_corpus_and_a_run(command, write_recipe, corpus, tmp_path):
    run, recipe = tmp_path / "run", write_recipe(tmp_path)
    changes = [f"data.corpus={corpus}", "training.steps=4"]
    changes.append("training.schedule={kind='constant', warmup_steps=0}")
    assert command("pretrain", recipe, *changes).code == 0
    assert command("verify", corpus).out.splitlines()[-1] == (
        f"{corpus}: nothing is wrong with this corpus."
    )
    assert command("verify", run).code == 0
    with pytest.raises(SettingError) as caught:
        cw.verify(run, accept=True)
    assert str(caught.value) == (
        f"accept is True; {run} is a run, whose files are made by commands alone; leave it out, or "
        "make the folder again."
    )
    line = (run / "metrics.jsonl").read_bytes()
    flip(run / "metrics.jsonl", line.index(b'"loss": ') + 8)
    assert cw.verify(run).faults == [
        f"{run / 'metrics.jsonl'} is not as it was saved: its content is another; restore it."
    ]
    (run / "metrics.jsonl").write_bytes(line)
    weights = next((run / "snapshots").glob("*/model.safetensors"))
    flip(weights)
    assert cw.verify(run).faults == [
        f"{weights} is damaged: its content is not what its manifest says. Remove it; the run goes "
        "on from the one before it."
    ]
    shard = corpus / "train-00000.safetensors"
    flip(shard)
    damaged = f"{shard} is damaged: its hash is not the one in the manifest."
    assert cw.verify(corpus).faults == [damaged]
    shutil.rmtree(run)
    outcome = command("pretrain", recipe, *changes)
    assert outcome.code == 2
    assert outcome.err.splitlines()[-1] == (
        f"clozeworks: {damaged} Put an intact copy in its place, or build the corpus again with "
        "--overwrite."
    )


def test_what_is_not_accepted_stays_as_it_was_on_a_full_disk(bert_model, monkeypatch):
    before = (bert_model / "clozeworks.json").read_bytes()
    flip(bert_model / "vocab.txt")
    written = []

    def full(path, data):
        if written.append(path) or len(written) > 1:
            raise OutputError("no space")
        write_json(path, data)

    write_json = checksums.write_json
    monkeypatch.setattr(checksums, "write_json", full)
    monkeypatch.setattr(Path, "write_bytes", full)
    assert not cw.verify(bert_model, accept=True).intact
    assert (bert_model / "clozeworks.json").read_bytes() == before


def test_an_interrupted_acceptance_accepts_nothing(bert_model, monkeypatch):
    (bert_model / "config.json").write_text((bert_model / "config.json").read_text() + "\n")
    before = {path.name: path.read_bytes() for path in bert_model.iterdir()}

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(verifying, "_verify_files", interrupt)
    with pytest.raises(KeyboardInterrupt):
        cw.verify(bert_model, accept=True)
    assert {path.name: path.read_bytes() for path in bert_model.iterdir()} == before
