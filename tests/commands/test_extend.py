"""`clozeworks tokenizer extend`: what it prints, what it writes, what it refuses."""

import json
import shutil

import pytest

import clozeworks as cw
from clozeworks.cli.commands import tokenizer
from clozeworks.inference.cloze_cost import cloze_cost

FIELD = "the catamaran sat beside the gardenia and the dogmatic mathematician"
LINES = [f"{FIELD} {number} times" for number in range(2000)]


@pytest.fixture
def bert(tiny_models):
    return tiny_models["bert"]


@pytest.fixture
def field(tmp_path):
    path = tmp_path / "field.txt"
    path.write_text("\n\n".join(LINES), encoding="utf-8")
    return path


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_a_model_becomes_a_model(command, tiny_models, family, field, tmp_path):
    out = tmp_path / "wider"
    old = cw.load(tiny_models[family])
    outcome = command("tokenizer", "extend", tiny_models[family], field, "--add", 9, "-o", out)
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    count = old.blueprint.count() + 9 * (32 + 1)
    assert lines[0].startswith(
        f"{out}: {family} model of {count:,} parameters; 9 pieces added to {old.tokenizer.size:,} "
    )
    assert lines[1].split() == ["before", "after"]
    before, after = map(float, lines[2].removeprefix("tokens per word").split())
    assert 1 < after < before
    assert lines[3].startswith("unknown tokens")
    assert lines[6].startswith("measured on 1,2")
    assert lines[6].endswith(" words of documents held out, one in 20")
    assert lines[8].startswith("new: ") and len(lines[8].split(", ")) == 9
    assert lines[9] == (
        f"Go on with: clozeworks corpus build {field} --tokenizer {out} --out corpus"
    )
    wider = cw.load(out)
    held = LINES[19::20]
    costs = [
        cloze_cost(one.model, one.tokenizer, held, beside=[other.tokenizer])
        for one, other in ((old, wider), (wider, old))
    ]
    assert costs[0].words == costs[1].words > 100
    assert lines[4].split() == ["nats", "per", "word", *(f"{cost.per_word:.3f}" for cost in costs)]
    assert lines[5].split() == ["nats", "per", "token", *(f"{one.per_token:.3f}" for one in costs)]
    assert lines[7] == (
        f"nats: what {costs[0].words:,} hidden words cost the model; all pieces of a word are "
        "hidden, and guessed independently of each other"
    )
    assert wider.tokenizer.size == wider.blueprint.embeddings.tokens == old.tokenizer.size + 9
    ranked = len(wider.fill("the [MASK] sat", top=10**6).gaps[0])
    assert ranked == len(wider.tokenizer.vocabulary()) - len(wider.tokenizer.special_ids)
    build = command("corpus", "build", field, "--tokenizer", out, "--out", tmp_path / "corpus")
    assert build.code == 0


def test_a_tokenizer_becomes_a_tokenizer(command, tokenizer_folder, field, tmp_path):
    out = tmp_path / "wider"
    outcome = command("tokenizer", "extend", tokenizer_folder, field, "--add", 9, "--out", out)
    assert outcome.out.startswith(f"{out}: tokenizer; 9 pieces added to ")
    assert not (out / "config.json").exists()
    old, new = cw.Tokenizer.load(tokenizer_folder), cw.Tokenizer.load(out)
    assert list(new.vocabulary())[: old.size] == list(old.vocabulary())
    assert new.size == old.size + 9


def test_a_config_without_weights_is_a_tokenizer(command, bert, field, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(bert, folder)
    (folder / "model.safetensors").unlink()
    outcome = command("tokenizer", "extend", folder, field, "--add", 2, "-o", tmp_path / "out")
    assert outcome.out.startswith(f"{tmp_path / 'out'}: tokenizer; 2 pieces added to ")


def test_a_model_without_a_vocabulary_head_fills_no_gaps(command, bert, field, tmp_path):
    body = tmp_path / "body"
    command("new", "bert-tiny", "--heads", "pooler", "--tokenizer", bert, "--out", body)
    outcome = command("tokenizer", "extend", body, field, "--add", 9, "-o", tmp_path / "out")
    assert outcome.code == 0 and " words of documents held out, one in 20\n" in outcome.out
    assert "nats" not in outcome.out


def test_where_no_word_could_be_written_nothing_is_said_of_gaps(command, bert, tmp_path):
    path = tmp_path / "zh.txt"
    path.write_text("上海座城市\n\n" * 5000, encoding="utf-8")
    outcome = command("tokenizer", "extend", bert, path, "--add", 9, "-o", tmp_path / "out")
    assert outcome.code == 0 and " words of documents held out, one in 20\n" in outcome.out
    assert "nats" not in outcome.out


def test_of_many_documents_some_are_kept_whichever_come_first(bert, monkeypatch):
    monkeypatch.setattr(tokenizer, "KEPT", 50)
    monkeypatch.setattr(tokenizer, "BEGINNING", 30)
    held = tokenizer._HeldOut(cw.load(bert).tokenizer)
    for number in range(1000):
        held.add(f"cat {number} " + "sat on the mat " * 9)
    kept = [int(text.split()[1]) for text in held.texts]
    assert len(set(kept)) == 50 and 350 < sum(kept) / 50 < 650
    assert all(text.endswith(("mat ", "the ", "on ", "sat ")) for text in held.texts)
    assert max(map(len, held.texts)) <= 30 and held.words()["sat"] == 9000


def test_few_documents_are_measured_on_themselves(command, bert, tmp_path):
    path = tmp_path / "a b.jsonl"
    rows = [json.dumps({"id": "x", "body": FIELD}) for _ in range(9)]
    path.write_text("\n".join(rows), encoding="utf-8")
    out = tmp_path / "out"
    outcome = command(
        "tokenizer", "extend", bert, path, "--column", "body", "--add", 999, "-o", out
    )
    lines = outcome.out.splitlines()
    assert lines[4] == (
        "measured on 90 words of the text itself; too little of it could be held out"
    )
    assert lines[6] == "The text has no more pieces that would be used 5 times."
    assert lines[7] == (
        f"Go on with: clozeworks corpus build '{path}' --column body --tokenizer {out} --out corpus"
    )


def test_chinese_characters_are_words_and_that_is_said(command, bert, tmp_path):
    path = tmp_path / "zh.txt"
    path.write_text("上海是一座城市\n\n" * 30, encoding="utf-8")
    outcome = command("tokenizer", "extend", bert, path, "--add", 50, "-o", tmp_path / "out")
    assert outcome.code == 0
    assert (
        "For this tokenizer each Chinese character is a word of its own, so of Chinese only "
        "characters that it lacks can be added.\n"
    ) in outcome.out
    before, after = outcome.out.splitlines()[3].removeprefix("unknown tokens").split()
    assert float(before[:-1]) > 50 and after == "0.000%"
    assert outcome.out.splitlines()[-1] == (
        f"Go on with: clozeworks corpus build {path} --words jieba --tokenizer {tmp_path / 'out'} "
        "--out corpus"
    )


def test_the_next_command_reads_the_same_files(command, bert, field, tmp_path):
    path = tmp_path / "wide.txt"
    path.write_text(field.read_text(encoding="utf-8"), encoding="utf-16-le")
    out, more = tmp_path / "out", ("--encoding", "utf-16-le")
    outcome = command("tokenizer", "extend", bert, path, "--add", 2, "-o", out, *more)
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines()[-1] == (
        f"Go on with: clozeworks corpus build {path} --encoding utf-16-le --tokenizer {out} "
        "--out corpus"
    )


def test_refusals(refused, bert, field, tmp_path):
    out = tmp_path / "out"

    def check(sentence, *arguments):
        refused(sentence, "tokenizer", "extend", *arguments, "-o", out)

    check("FILES is missing. See: clozeworks tokenizer extend --help", bert, "--add", 5)
    check("--add is 0; it must be at least 1.", bert, field, "--add", 0)
    check("--add is -7; it must be at least 1.", bert, field, "--add=-7")
    check("--least is 0; it must be at least 1.", bert, field, "--add", 5, "--least", 0)
    blank, nul, plain = (tmp_path / name for name in ("blank.txt", "nul.txt", "plain.txt"))
    blank.write_text(" \n\n")
    nul.write_bytes(b"the cat\n\na\0b\n")
    plain.write_text("the cat sat on the mat\n\n" * 30)
    check(
        "the text is empty; new pieces come from the words of a text; give files with text.",
        *(bert, blank, "--add", 5),
    )
    check(
        "nothing is worth adding: no piece that is missing would be used 500 times in 174 words; "
        "give more text, or lower least (--least).",
        *(bert, plain, "--add", 5, "--least", 500),
    )
    check(
        f"{nul}, line 3: byte 0x00 does not occur in text; this is a binary file, or damaged; "
        "name its encoding with --encoding, or, if it is damaged, replace such bytes with "
        "--bad-bytes replace, or skip such rows with --bad-bytes skip-row.",
        *(bert, nul, "--add", 5),
    )
    assert not out.exists()


def test_a_folder_that_exists_is_not_replaced_unless_asked(refused, command, bert, field, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "vocab.txt").write_text("mine")
    arguments = ("tokenizer", "extend", bert, field, "--add", 5, "-o", out)
    refused(
        f"{out} exists and is not empty; choose another name, or replace it with --overwrite "
        "(overwrite=True in Python).",
        *arguments,
    )
    assert command(*arguments, "--overwrite").code == 0
    assert cw.load(out).has_tokenizer
