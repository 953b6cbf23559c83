"""What a person does wrong on the command line, and the sentence each mistake ends in."""

import os
import shutil

import pytest

from clozeworks.cli.main import COMMANDS, task_commands
from clozeworks.families.family import published_sizes

SIZES = ", ".join(sorted(published_sizes()))
LONG = "cat " * 100_000


@pytest.fixture
def bert(tiny_models):
    return tiny_models["bert"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([""], "The input is blank; give a text, the name of a file, or - to pipe one."),
        ([" \t"], "The input is blank; give a text, the name of a file, or - to pipe one."),
        (
            ["The [MASK].", "The cat sat on the mat and the dog lay on the rug."],
            "text 2 ('The cat sat on the mat and the dog lay …') has no gap; write [MASK] where a "
            "word is missing.",
        ),
        (
            ["a \ud83d [MASK]"],
            "The input holds the lone surrogate \\ud83d; that is half a character; write the whole "
            "character.",
        ),
        (
            ["The [MASK].", "--words", "cat,zebra"],
            "the word 'zebra' is not one token of this model (it would be: [UNK]); a gap takes one "
            "token; choose words from the vocabulary.",
        ),
        (
            ["a [MASK]", "--words", ","],
            "--words is empty; name at least one word, or leave it out.",
        ),
        (["a [MASK]", "--top", "0"], "--top is 0; it must be at least 1."),
        (
            ["a [MASK]", "-k", "many"],
            'Invalid value for -k: unable to convert "many" into int. See: clozeworks fill --help',
        ),
        (
            ["a [MASK]", "--topp", "3"],
            "Unknown option: --topp. Did you mean --top? See: clozeworks fill --help",
        ),
        ([], "SOURCE is missing. See: clozeworks fill --help"),
    ],
)
def test_fill(refused, bert, arguments, sentence):
    refused(sentence, "fill", bert, *arguments)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([""], "The input is blank; give a text, the name of a file, or - to pipe one."),
        (["  "], "The input is blank; give a text, the name of a file, or - to pipe one."),
        (
            [LONG],
            "the text has 100,002 tokens; at most 512 are allowed; shorten it, or have it cut with "
            "--truncate (truncate=True in Python).",
        ),
        (
            ["cat", "--max-length", "600"],
            "--max-length is 600; this model takes at most 512 tokens; lower it.",
        ),
        (["cat", "--max-length", "0"], "--max-length is 0; it must be at least 1."),
        (
            ["cat", "--max-length", "2", "--truncate"],
            "--max-length is 2; 2 special tokens and one token of text need 3; raise max_length.",
        ),
        (
            ["cat", "--batch-tokens", "0"],
            "--batch-tokens is 0; it must be at least 1.",
        ),
        (
            ["cat", "--pooling", "mean,frist"],
            "--pooling is 'frist'; known: attention_mean, first, last, max, mean, "
            "mean_sqrt_length, tf_idf_mean, weighted_mean. Did you mean 'first'?",
        ),
        (
            ["cat", "--column", "body"],
            "--column is 'body'; the input is a text, not a file; leave it out.",
        ),
        (
            ["cat", "--encoding", "utf-8"],
            "--encoding is 'utf-8'; the input is a text, not a file; leave it out.",
        ),
        (
            ["cat", "--skip-blank"],
            "--skip-blank is set; the input is a text, not a file; leave it out.",
        ),
        (
            ["notes.txt"],
            "notes.txt does not exist; check the name and the folder, or, if it is meant as a "
            "text, pipe it in with -.",
        ),
        (
            ["cat", "--colum", "a"],
            "Unknown option: --colum. Did you mean --column? See: clozeworks embed --help",
        ),
    ],
)
def test_embed(refused, bert, monkeypatch, tmp_path, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    refused(sentence, "embed", bert, *arguments)


def test_a_text_of_a_file_is_named_by_its_line(refused, bert, tmp_path):
    path = tmp_path / "long.txt"
    path.write_text(f"the cat\n{'cat ' * 700}\nthe cat\n{'cat ' * 800}\n", encoding="utf-8")
    refused(
        f"{path}, line 4 has 802 tokens; at most 512 are allowed (2 of 4 texts are too long); "
        "shorten it, or have it cut with --truncate (truncate=True in Python).",
        *("embed", bert, path),
    )


def test_a_lone_surrogate_in_jsonl(refused, bert, tmp_path):
    path = tmp_path / "notes.jsonl"
    path.write_text('{"text": "ok"}\n{"text": "a \\ud800 b"}\n', encoding="utf-8")
    refused(
        f"{path}, line 2: the text holds the lone surrogate \\ud800; that is half a character; "
        "write the whole character.",
        *("embed", bert, path),
    )


def test_a_file_in_another_encoding(refused, command, bert, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_bytes("the cat\nthe café\n".encode("latin-1"))
    refused(
        f"{path}, line 2: byte 0xE9 is not valid UTF-8; convert the file, or say what it is with "
        "--encoding cp1252.",
        *("embed", bert, path),
    )
    outcome = command("embed", bert, path, "--encoding", "latin-1")
    assert outcome.code == 0 and '"the café"' in outcome.out


def test_a_blank_line(refused, command, bert, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("the cat\n\nthe dog\n", encoding="utf-8")
    refused(
        f"{path}, line 2: the text is blank; fill it in, or leave out such lines with "
        "--skip-blank.",
        *("embed", bert, path),
    )
    outcome = command("embed", bert, path, "--skip-blank")
    assert "2 texts (1 blank one left out) in" in outcome.err


def test_outputs_that_cannot_be_written(refused, bert, tmp_path, monkeypatch):
    taken = tmp_path / "taken.npy"
    taken.write_bytes(b"old")
    refused(
        f"{taken} exists; choose another name, or replace it with --overwrite.",
        *("embed", bert, "cat", "--out", taken),
    )
    assert taken.read_bytes() == b"old"
    refused(
        f"{tmp_path / 'a.npz'} has the suffix '.npz'; known: .npy, .jsonl, .parquet; the suffix "
        "chooses the format, so end the name in one of them. Did you mean '.npy'?",
        *("embed", bert, "cat", "--out", tmp_path / "a.npz"),
    )
    missing = tmp_path / "no"
    refused(
        f"{missing / 'a.npy'} cannot be written: the folder {missing} does not exist; create it "
        f"with: mkdir -p {missing}.",
        *("embed", bert, "cat", "--out", missing / "a.npy"),
    )
    refused(
        f"{taken / 'a.npy'} cannot be written: {taken} is a file, not a folder; choose another "
        "place.",
        *("embed", bert, "cat", "--out", taken / "a.npy"),
    )
    refused(
        f"{taken / 'model'} cannot be made: {taken} is a file; choose another place.",
        *("new", "bert-tiny", "--tokenizer", bert, "--out", taken / "model"),
    )
    refused(
        f"{taken} is a file; name a folder.",
        *("new", "bert-tiny", "--tokenizer", bert, "--out", taken),
    )
    monkeypatch.setattr(os, "access", lambda *_: False)
    refused(
        f"{tmp_path / 'a.npy'} cannot be written: the folder {tmp_path} is not writable; choose "
        "another place, or change its permissions.",
        *("embed", bert, "cat", "--out", tmp_path / "a.npy"),
    )
    refused(
        f"{tmp_path / 'model'} cannot be made: the folder {tmp_path} is not writable; choose "
        "another place, or change its permissions.",
        *("new", "bert-tiny", "--tokenizer", bert, "--out", tmp_path / "model"),
    )


def test_a_folder_is_replaced_only_when_asked_and_only_if_it_is_ours(refused, bert, tmp_path):
    full = tmp_path / "full"
    full.mkdir()
    (full / "tokenizer.json").write_text("{}")
    refused(
        f"{full} exists and is not empty; choose another name, or replace it with --overwrite "
        "(overwrite=True in Python).",
        *("new", "bert-tiny", "--tokenizer", bert, "--out", full),
    )
    refused(
        f"{tmp_path} holds files, but neither a model nor a tokenizer, so it is not replaced; "
        "choose another name, or empty it yourself.",
        *("new", "bert-tiny", "--tokenizer", bert, "--out", tmp_path, "--overwrite"),
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["fil"],
            f"command is 'fil'; known: {', '.join(sorted({*COMMANDS, *task_commands()}))}. Did you "
            "mean 'fill'?",
        ),
        (
            ["data", "check", "[" * 100_000],
            "an argument has too many brackets to be read; shorten it.",
        ),
        (
            ["tokenizer", "trian"],
            'Unknown command "trian". Did you mean "train"? Available commands: train, bytes, '
            "inspect, extend. See: clozeworks tokenizer --help",
        ),
        (
            ["show", "bert-tinny"],
            "bert-tinny is not a folder here, it is not in the local cache, and the hub cannot be "
            "reached; give the path of a model folder, or go online and try again. Or did you "
            "mean the published size 'bert-tiny'?",
        ),
        (
            ["show", "bert-tiny", "--heads", "clases"],
            "head is 'clases'; known: answer, choice, classes, next_sentence, pooler, tokens, "
            "vocabulary. Did you mean 'classes'?",
        ),
        (
            ["show", "./nothing"],
            "./nothing is not a folder here and cannot be a hub name; check the spelling.",
        ),
    ],
)
def test_names(refused, arguments, sentence):
    refused(sentence, *arguments)


def test_heads_of_a_folder(refused, bert):
    refused(
        "--heads is 'pooler'; a folder has the heads it has; leave it out.",
        *("show", bert, "--heads", "pooler"),
    )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            ["depth"],
            "changes is 'depth'; each must be key=value, such as hidden_size=256.",
        ),
        (["vocab_size=9"], "vocab_size is 9; the tokenizer determines it; leave it out."),
        (["model_type=roberta"], "model_type is 'roberta'; the size determines it; leave it out."),
        (
            ["hidden_size=wide"],
            "bert-tiny: hidden_size is 'wide'; it must be a whole number from 1 to 2,147,483,647; "
            "correct it.",
        ),
        (["--seed", "-1"], "--seed is -1; it must be at least 0 and below 2**63."),
        (
            ["--heads", "answer,classes,pooler"],
            "heads is answer, classes, pooler; no published bert architecture holds all of them; "
            "save them as separate models.",
        ),
    ],
)
def test_new(refused, bert, tmp_path, changes, sentence):
    arguments = ["bert-tiny", *changes, "--tokenizer", bert, "--out", tmp_path / "a" / "b"]
    refused(sentence, "new", *arguments)


def test_new_too_large(command, bert, tmp_path, listing):
    outcome = command(
        *("new", "bert-tiny", "hidden_size=2000000000", "num_attention_heads=1"),
        *("--tokenizer", bert, "--out", tmp_path / "model"),
    )
    begin = (
        "clozeworks: size is 'bert-tiny'; with these settings it is too large for this machine ("
    )
    assert outcome.code == 2 and outcome.err.startswith(begin)
    assert listing(tmp_path) == {}


def test_tokenizer_commands(refused, bert, tmp_path):
    refused(
        "FILES is missing. See: clozeworks tokenizer train --help",
        *("tokenizer", "train", "--out", tmp_path / "tokenizer"),
    )
    refused(
        "--cased is set; bpe always keeps case; leave it out.",
        *("tokenizer", "train", "a.txt", "--kind", "bpe", "--cased", "--out", tmp_path / "t"),
    )
    refused(
        'Invalid value "wordpeace" for --kind. Choose from: "wordpiece", "bpe", "unigram". Did '
        'you mean "wordpiece"? See: clozeworks tokenizer train --help',
        *("tokenizer", "train", "a.txt", "--kind", "wordpeace", "--out", tmp_path / "t"),
    )
    refused(
        "--kind is 'bpe'; tokenizers of --family xlnet are unigram; leave one of the two out.",
        *("tokenizer", "train", "a.txt", "--kind", "bpe", "--family", "xlnet"),
        *("--out", tmp_path / "t"),
    )


def test_a_model_without_what_is_asked(refused, command, bert, tmp_path, bert_model):
    body = tmp_path / "body"
    command("new", "bert-tiny", "--heads", "pooler", "--tokenizer", bert, "--out", body)
    refused(
        f"{body} has no vocabulary head, so it cannot fill gaps; use a checkpoint saved with its "
        "masked-language-model head.",
        *("fill", body, "a [MASK]"),
    )
    for name in ("tokenizer.json", "vocab.txt", "clozeworks.json"):
        (bert_model / name).unlink()
    refused(
        f"{bert_model} has no tokenizer; put tokenizer.json, or vocab.txt, or vocab.json with "
        "merges.txt into the folder.",
        *("embed", bert_model, "cat"),
    )


def test_sizes_are_listed_with_where_they_come_from(command):
    lines = [" ".join(line.split()) for line in command("show").out.splitlines()]
    assert "bert-tiny 4,385,920 parameters (Turc et al. 2019)" in lines
    assert any(line.startswith("gpt2-tiny ") and "(ours, for trying)" in line for line in lines)
    assert any(line.startswith("t5-tiny ") and "google/t5-efficient-tiny" in line for line in lines)
    assert any(line.startswith("bert-base ") and line.endswith("parameters") for line in lines)


def test_a_model_needs_a_name_that_its_library_can_open(refused, tmp_path, tiny_models):
    """Such a name is bytes that no UTF-8 has, as other systems once wrote them."""
    name = tmp_path / os.fsdecode(b"caf\xe9")
    where = f"{name} has a name that is not UTF-8, and weights cannot be read from there; "
    shown = where.replace("\udce9", "\\udce9")
    refused(
        f"{shown}choose another name.", "new", "bert-tiny", "--tokenizer", tiny_models["bert"],
        "--out", name,
    )  # fmt: skip
    assert not name.exists()
    shutil.copytree(tiny_models["bert"], name)
    sentence = shown.replace(" has a", "/model.safetensors has a")
    refused(f"{sentence}rename it.", "fill", name, "a [MASK]")


def test_a_recipe_needs_names_that_it_can_hold(refused, tmp_path):
    corpus = os.fsdecode(b"caf\xe9")
    refused(
        "caf\\udce9 is not valid Unicode, and a recipe cannot hold it; rename the file or folder.",
        *("init", "pretrain", tmp_path / "recipe.toml", "--corpus", corpus),
    )
    assert not list(tmp_path.iterdir())
