"""What the commands print and write when all is well."""

import gzip
import io
import json
import sys

import numpy as np
import pytest

import clozeworks as cw
from clozeworks.families.family import published_sizes

TEXTS = ["the cat sat on the mat", "北京的天气很好", "the dog"]


@pytest.fixture
def bert(tiny_models):
    return tiny_models["bert"]


def vectors(outcome):
    return np.array([json.loads(line)["vector"] for line in outcome.out.splitlines()], np.float32)


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_fill_takes_both_spellings_of_a_gap(command, tiny_models, family):
    folder = tiny_models[family]
    first = command("fill", folder, "the [MASK] sat on the [MASK].", "--json")
    second = command("fill", folder, "the <mask> sat on the <mask>.", "--json")
    found, other = json.loads(first.out), json.loads(second.out)
    assert first.code == 0 and first.err == ""
    assert found["gaps"] == other["gaps"] and found["best"] == other["best"]
    assert found["text"] == "the [MASK] sat on the [MASK]."
    assert [len(gap) for gap in found["gaps"]] == [5, 5]
    for gap in found["gaps"]:
        scores = [guess["score"] for guess in gap]
        assert scores == sorted(scores, reverse=True) and 0 < sum(scores) <= 1
    # A byte-level piece brings its own space, or none; a WordPiece one continues with ##.
    shown = [gap[0]["token"] for gap in found["gaps"]]
    apart = [token[:1] == "Ġ" if family == "roberta" else token[:2] != "##" for token in shown]
    words = [gap[0]["word"].removeprefix("##") for gap in found["gaps"]]
    first_gap, second_gap = (" " * space + word for space, word in zip(apart, words, strict=True))
    assert found["best"] == f"the{first_gap} sat on the{second_gap}."


def test_special_tokens_are_ranked_only_if_they_are_named(command, bert):
    [found] = json.loads(command("fill", bert, "the [MASK]", "--json", "-k", "100000").out)["gaps"]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert len(found) == 110 and not {guess["token"] for guess in found} & set(special)
    named = command("fill", bert, "the [MASK]", "--json", "--words", ",".join(special))
    [asked] = json.loads(named.out)["gaps"]
    assert {guess["token"] for guess in asked} == set(special)
    # Scores are shares of the whole vocabulary.
    assert sum(guess["score"] for guess in found + asked) == pytest.approx(1, abs=1e-5)


def test_fill_ranks_only_the_words_named(command, bert):
    everything = json.loads(command("fill", bert, "the [MASK]", "--json", "-k", "115").out)
    few = json.loads(command("fill", bert, "the [MASK]", "--json", "--words", "cat, dog,北").out)
    score = {guess["word"]: guess["score"] for guess in everything["gaps"][0]}
    assert {guess["word"] for guess in few["gaps"][0]} == {"cat", "dog", "北"}
    for guess in few["gaps"][0]:
        assert guess["score"] == pytest.approx(score[guess["word"]], rel=1e-5)


def guesses(lines):
    """The words of each line; a score's last digits depend on what stood in the batch."""
    found = [json.loads(line) for line in lines.splitlines()]
    return [
        (each["text"], [(guess["word"], round(guess["score"], 6)) for guess in each["gaps"][0]])
        for each in found
    ]


def test_fill_reads_files_and_standard_input(command, bert, tmp_path, monkeypatch):
    texts = ["the [MASK] sat", "a [MASK]"]
    expected = guesses(command("fill", bert, *texts, "--json").out)
    table = tmp_path / "gaps.csv"
    table.write_text("1,the [MASK] sat\n2,a [MASK]\n", encoding="utf-8")
    rows = command("fill", bert, table, "--no-header", "--column", "2", "--json").out
    assert guesses(rows) == expected
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(texts).encode())))
    assert guesses(command("fill", bert, "-", "--json").out) == expected
    refused = command("fill", bert, *texts, "--column", "2")
    assert refused.code == 2 and refused.err == (
        "clozeworks: --column is '2'; the inputs are several texts, not a file; leave it out.\n"
    )


def test_fill_prints_for_people(command, bert):
    lines = command("fill", bert, "the [MASK] and the [MASK]", "a [MASK]", "-k", "2").out.split(
        "\n"
    )
    assert [line for line in lines if line.startswith("  gap")] == ["  gap 1", "  gap 2"]
    assert len(lines) == 7 + 3 + 1
    assert float(lines[2].split()[0]) >= float(lines[3].split()[0])


def test_every_kind_of_input_gives_the_same_vectors(command, bert, tmp_path, monkeypatch):
    wanted = np.concatenate([vectors(command("embed", bert, text)) for text in TEXTS])
    contents = {
        "a.txt": "".join(f"{text}\n" for text in TEXTS),
        "a.jsonl": "".join(json.dumps({"text": text}) + "\n" for text in TEXTS),
        "a.csv": "id,text\n" + "".join(f"{n},{text}\n" for n, text in enumerate(TEXTS)),
        "a.tsv": "id\ttext\n" + "".join(f"{n}\t{text}\n" for n, text in enumerate(TEXTS)),
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content.encode()))
        for path in (tmp_path / name, tmp_path / f"{name}.gz"):
            outcome = command("embed", bert, path)
            assert outcome.code == 0
            np.testing.assert_allclose(vectors(outcome), wanted, atol=1e-5)
            assert [json.loads(line)["text"] for line in outcome.out.splitlines()] == TEXTS
    piped = io.TextIOWrapper(io.BytesIO(contents["a.txt"].encode()))
    monkeypatch.setattr(sys, "stdin", piped)
    np.testing.assert_allclose(vectors(command("embed", bert, "-")), wanted, atol=1e-5)


def test_every_kind_of_output_holds_the_same_vectors(command, bert, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "a.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    for suffix in ("npy", "jsonl", "parquet"):
        out = tmp_path / f"v.{suffix}"
        outcome = command("embed", bert, tmp_path / "a.txt", "--out", out)
        assert (outcome.code, outcome.out) == (0, "")
        said = outcome.err.splitlines()
        assert said[0] == "Pooling: mean pooling (the default)."
        assert said[1].startswith("3 texts in ")
        assert said[1].endswith(f" s; vectors of width 32 in {out}")
        assert (len(said) == 3) == (suffix == "npy")
    wanted = np.load(tmp_path / "v.npy")
    assert wanted.shape == (3, 32) and wanted.dtype == np.float32
    lines = (tmp_path / "v.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line)["vector"] for line in lines]
    np.testing.assert_array_equal(np.array(found, np.float32), wanted)
    table = parquet.read_table(tmp_path / "v.parquet")
    np.testing.assert_array_equal(np.array(table["vector"].to_pylist(), np.float32), wanted)
    assert table["text"].to_pylist() == TEXTS


def test_an_output_is_replaced_when_asked(command, bert, tmp_path, listing):
    out = tmp_path / "v.npy"
    out.write_bytes(b"old")
    assert command("embed", bert, "cat", "-o", out, "--overwrite").code == 0
    assert np.load(out).shape == (1, 32)
    assert list(listing(tmp_path)) == ["v.npy"]


def test_a_long_text_is_cut_when_asked(command, bert):
    whole = command("embed", bert, "cat " * 100_000, "--truncate")
    cut = command("embed", bert, "cat " * 510)
    assert whole.code == 0
    np.testing.assert_allclose(vectors(whole), vectors(cut), atol=1e-6)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "mean pooling (the default)"),
        (["--pooling", "first"], "first pooling (as asked)"),
        (["--normalize"], "mean pooling (the default); scaled to length 1 (as asked)"),
        (["--no-normalize"], "mean pooling (the default); not scaled (as asked)"),
        (
            ["--pooling", "mean, max", "--normalize"],
            "mean + max pooling (as asked); scaled to length 1 (as asked)",
        ),
    ],
)
def test_pooling_is_always_stated(command, bert, options, said):
    outcome = command("embed", bert, "the cat", *options)
    assert outcome.err.splitlines()[0] == f"Pooling: {said}."
    assert outcome.err.splitlines()[1].startswith("1 text in ")
    if "--normalize" in options:
        assert np.linalg.norm(vectors(outcome)) == pytest.approx(1, abs=1e-5)


def test_pooling_of_the_folder(command, bert, tmp_path):
    import clozeworks as cw

    model = cw.load(bert)
    model.pooling = cw.Pooling(modes=("first",), normalize=True)
    model.save(tmp_path / "sentence")
    outcome = command("embed", tmp_path / "sentence", "the cat")
    said = "first pooling, scaled to length 1 (as the model folder says)"
    assert outcome.err.splitlines()[0] == f"Pooling: {said}."
    assert f"\nembed: {said}\n" in command("show", tmp_path / "sentence").out
    asked = command("embed", bert, "the cat", "--pooling", "first", "--normalize")
    np.testing.assert_allclose(vectors(outcome), vectors(asked), atol=1e-6)
    cut = command("embed", tmp_path / "sentence", "the cat", "--truncate-dim", "4")
    assert cut.err.splitlines()[0] == f"Pooling: {said}; the first 4 dimensions (as asked)."
    expected = vectors(outcome)[..., :4] / np.linalg.norm(vectors(outcome)[..., :4])
    np.testing.assert_allclose(vectors(cut), expected, atol=1e-6)
    wrong = command("embed", tmp_path / "sentence", "the cat", "--truncate-dim", "0")
    assert wrong.err == "clozeworks: --truncate-dim is 0; it must be at least 1.\n"


@pytest.mark.parametrize("size", published_sizes())
def test_show_a_published_size(command, size):
    outcome = command("show", size)
    assert outcome.code == 0 and outcome.err == ""
    lines = outcome.out.splitlines()
    # Positions that are distances between tokens have no last one.
    distances = ("deberta-", "modernbert-", "xlnet-", "t5-", "ul2")
    endless = any(name in size for name in distances)
    # What writes goes no further than texts of training went.
    stated = {
        "gpt2": "1,024",
        "llama-7b": "2,048",
        "llama-tiny": "2,048",
        "llama-2": "4,096",
        "llama-3-": "8,192",
    }
    stated |= {"llama-3.": "131,072", "mistral-7b": "32,768", "mistral-nemo": "131,072"}
    stated |= {"qwen2.5-7b": "131,072", "qwen2.5-14b": "131,072", "smollm3-": "65,536"}
    stated |= {"qwen2.5-": "32,768", "bge-m3": "8,192", "ernie-1.0": "513", "ernie-3.0": "2,048"}
    longest = next((room for name, room in stated.items() if size.startswith(name)), "512")
    room = "texts of any length" if endless else f"texts of up to {longest} tokens"
    assert lines[0].startswith(f"{size} (") and lines[1] == room
    assert json.loads(command("show", size, "--json").out)["width"] % 8 == 0


def test_show_lists_the_sizes(command):
    out = command("show").out
    assert all(f"  {size} " in out for size in published_sizes())


def test_show_a_folder(command, tiny_models):
    lines = command("show", tiny_models["roberta"]).out.splitlines()
    assert lines[0] == f"{tiny_models['roberta']} (roberta, Liu et al. 2019)"
    assert lines[-3:-1] == ["42 weights loaded", "embed: mean pooling (the default)"]
    assert lines[-1].startswith("tokenizer: bpe, 387 entries, sha256:")


def test_env(command):
    outcome = command("env")
    assert outcome.code == 0 and outcome.out.startswith("clozeworks       0.")


def test_a_tokenizer_that_writes_texts_as_a_family_does(command, tmp_path):
    text, tokenizer = tmp_path / "text.txt", tmp_path / "tokenizer"
    text.write_text("the cat sat on the mat\nthe dog lay on the rug\n" * 20, encoding="utf-8")
    trained = command(
        *("tokenizer", "train", text, "--family", "xlnet", "--size", "40", "--out", tokenizer)
    )
    assert trained.out.startswith(f"{tokenizer}: unigram, ")
    tokens = [line.split()[1] for line in _tokens(command, tokenizer, "the cat")]
    assert tokens[-2:] == ["<sep>", "<cls>"]


def _tokens(command, tokenizer, text):
    lines = command("tokenizer", "inspect", tokenizer, text).out.splitlines()
    return lines[[line.endswith("of them added:") for line in lines].index(True) + 1 :]


def test_a_terminal_is_shown_tokens_and_obeys_none(command, tmp_path):
    evil = "\x1b]0;owned\x07"
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", f"[{evil}]", "cat"]
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"mask_token": f"[{evil}]"}))
    inspected = command("tokenizer", "inspect", folder, f"cat [{evil}] \x1b[31m")
    assert inspected.code == 0
    assert "mask         [\\x1b]0;owned\\x07] = 4" in inspected.out
    assert "\x1b" not in inspected.out and "\x07" not in inspected.out
    (folder / "vocab.txt").write_text(f"[UNK]\n{evil}\n{evil}\n", encoding="utf-8")
    (folder / "added_tokens.json").write_text(json.dumps({"\x9b2J": 9}))
    refused = command("tokenizer", "inspect", folder)
    assert refused.code == 2 and refused.err.startswith("clozeworks: ")
    assert not {"\x1b", "\x07", "\x9b"} & {*refused.err}
    refused = command("tokenizer", "inspect", tmp_path / evil)
    assert refused.code == 2 and "\\x1b]0;owned\\x07" in refused.err
    assert not {"\x1b", "\x07"} & {*refused.err}


def test_gaps_of_a_vocabulary_are_worth_a_look(command, tmp_path):
    (tmp_path / "vocab.json").write_text('{"a": 0, "b": 1, "c": 7, "<|endoftext|>": 2}')
    (tmp_path / "merges.txt").write_text("")
    assert (
        f"look at      {tmp_path}: 4 ids have no token, the first is 3; a vocabulary has no gaps "
        "unless it was published so; compare it with the original.\n"
    ) in command("tokenizer", "inspect", tmp_path).out


def test_from_text_to_vectors(command, tmp_path):
    """The whole chain, as a new user would type it."""
    text, tokenizer = tmp_path / "text.txt", tmp_path / "tokenizer"
    text.write_text("the cat sat on the mat\nthe dog lay on the rug\n" * 20, encoding="utf-8")
    trained = command("tokenizer", "train", text, "--size", "100", "--out", tokenizer)
    assert trained.code == 0, trained.err
    assert trained.out.startswith(f"{tokenizer}: wordpiece, ")
    assert "\nTry it with: clozeworks tokenizer inspect" in trained.out
    inspected = command("tokenizer", "inspect", tokenizer, "the cat")
    assert "word 1    characters 4 to 7: cat" in inspected.out
    model = tmp_path / "model"
    made = command(
        *("new", "bert-tiny", "hidden_size=64", "--tokenizer", tokenizer, "--out", model)
    )
    assert made.out.endswith(
        f" parameters, fresh weights (seed 0).\nLook at it with: clozeworks show {model}\n"
    )
    assert "texts of up to 512 tokens" in command("show", model).out
    assert command("fill", model, "the [MASK] sat").code == 0
    assert command("embed", model, text, "--out", tmp_path / "v.npy").code == 0
    assert np.load(tmp_path / "v.npy").shape == (40, 64)


def test_a_tokenizer_from_a_column_of_tables(command, tmp_path):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("id,body\n" + "7,grüner Tee\n" * 9, encoding="latin-1")
    out = tmp_path / "tokenizer"
    trained = command(
        *("tokenizer", "train", tmp_path / "*.csv", "--column", "body", "--encoding", "latin-1"),
        *("--size", "100", "--out", out),
    )
    assert (trained.code, trained.err) == (0, "read …\nlearn …\n")
    entries = cw.Tokenizer.load(out).vocabulary()
    assert {"gruner", "tee"} <= entries.keys()
    assert not {"body", "id", "7", ","} & entries.keys()


def test_help_and_version(command):
    assert command("--help").out == command().out == command("help").out
    assert command("--version").out.startswith("clozeworks 0.")
    for name in ("fill", "embed", "show", "new", "tokenizer", "env"):
        outcome = command(name, "--help")
        assert outcome.code == 0 and outcome.out.startswith(f"Usage: clozeworks {name}")
