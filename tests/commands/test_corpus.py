"""`clozeworks corpus`: what it makes of each kind of input, and what it prints about it."""

import bz2
import gzip
import json
import lzma
import re
import shutil

import pytest

from clozeworks.data.corpus.corpus import Corpus
from clozeworks.data.examples.loader import Loader
from clozeworks.text.tokenizer.tokenizer import Tokenizer

OBJECTIVES = ("bert", "roberta", "albert", "spanbert", "electra", "simcse")
TEXTS = ["The cat sat. A dog lay in its garden.", "The river.", "A new house and a mat."]


def build(command, tokenizer_folder, tmp_path, *arguments):
    """Builds without a validation part; gives the sentences of each document."""
    out = tmp_path / "out"
    shutil.rmtree(out, ignore_errors=True)
    wanted = ["--tokenizer", tokenizer_folder, "--out", out, "--validation", "0"]
    outcome = command("corpus", "build", *wanted, *arguments)
    assert (outcome.code, outcome.err) == (0, "")
    corpus = Corpus.open(out)
    split = corpus.split()
    assert command("corpus", "verify", out).code == 0
    bounds, documents = split.sentence_offsets, split.document_offsets
    texts = [
        corpus.tokenizer.decode(split.read(bounds[i], bounds[i + 1])[0].tolist())
        for i in range(split.sentences)
    ]
    return [texts[documents[i] : documents[i + 1]] for i in range(split.documents)]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("blank-line", [["the cat", "a dog lay."], ["its mat."], ["the river"]]),
        ("file", [["the cat", "a dog lay.", "its mat.", "the river"]]),
        ("line", [["the cat"], ["a dog lay."], ["its mat."], ["the river"]]),
    ],
)
def test_plain_text_by_what_a_document_is(command, tokenizer_folder, tmp_path, mode, expected):
    source = tmp_path / "a.txt"
    source.write_text("The cat\nA dog lay.\n\n\nIts mat.\n \nThe river", encoding="utf-8")
    found = build(command, tokenizer_folder, tmp_path, source, "--documents", mode)
    assert found == expected


def write_jsonl(path, texts):
    path.write_text("\n".join(json.dumps({"text": text, "id": 1}) for text in texts))


def write_table(path, texts):
    mark = "," if path.suffix == ".csv" else "\t"
    path.write_text("\n".join([f"id{mark}text", *(f"7{mark}{text}" for text in texts)]) + "\n")


def write_parquet(path, texts):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"text": texts}), path)


def write_plain(path, texts):
    path.write_text("\n\n".join(texts), encoding="utf-8")


KINDS = {
    ".txt": write_plain,
    ".jsonl": write_jsonl,
    ".csv": write_table,
    ".tsv": write_table,
    ".parquet": write_parquet,
}


@pytest.mark.parametrize("suffix", KINDS)
def test_every_kind_of_file_gives_the_same_documents(command, tokenizer_folder, tmp_path, suffix):
    plain = tmp_path / "plain.txt"
    write_plain(plain, TEXTS)
    expected = build(command, tokenizer_folder, tmp_path, plain)
    assert [len(document) for document in expected] == [2, 1, 1]
    source = tmp_path / f"a{suffix}"
    KINDS[suffix](source, TEXTS)
    assert build(command, tokenizer_folder, tmp_path, source) == expected


def pack_zstandard(data):
    return pytest.importorskip("zstandard").ZstdCompressor().compress(data)


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [
        (".gz", gzip.compress),
        (".bz2", bz2.compress),
        (".xz", lzma.compress),
        (".zst", pack_zstandard),
    ],
)
def test_packed_files(command, tokenizer_folder, tmp_path, suffix, pack):
    source = tmp_path / f"a.jsonl{suffix}"
    source.write_bytes(pack(b'{"text": "The cat sat."}\n{"text": "A dog lay."}\n'))
    found = build(command, tokenizer_folder, tmp_path, source)
    assert found == [["the cat sat."], ["a dog lay."]]


def test_folders_and_globs(command, tokenizer_folder, tmp_path, monkeypatch):
    folder = tmp_path / "texts"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.txt").write_text("The cat.")
    (folder / "deep" / "b.txt").write_text("A dog.")
    (folder / "deep" / "c.jsonl").write_text('{"text": "The mat."}')
    everything = [["the cat."], ["a dog."], ["the mat."]]
    assert build(command, tokenizer_folder, tmp_path, folder) == everything
    assert build(command, tokenizer_folder, tmp_path, folder / "**" / "*.txt") == everything[:2]
    monkeypatch.chdir(tmp_path)
    assert build(command, tokenizer_folder, tmp_path, "texts/*.txt", "texts/deep") == everything


def test_other_files_are_left_alone(command, tokenizer_folder, tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text("The cat.")
    for name in ("a.pdf", "b.pdf", "c.pdf", "d.pdf"):
        (folder / name).write_bytes(b"%PDF")
    wanted = ["--tokenizer", tokenizer_folder, "--out", tmp_path / "out", "--validation", "0"]
    outcome = command("corpus", "build", folder, *wanted)
    assert outcome.err == "Files of other kinds were left alone: a.pdf, b.pdf, c.pdf …\n"


def test_a_tokenizer_among_the_texts(command, tokenizer_folder, tmp_path):
    folder = tmp_path / "texts"
    shutil.copytree(tokenizer_folder, folder / "tokenizer")
    (folder / "a.txt").write_text("The cat.")
    wanted = ["--tokenizer", tokenizer_folder, "--out", tmp_path / "out", "--validation", "0"]
    outcome = command("corpus", "build", folder, *wanted)
    assert outcome.err == (
        "Files of other kinds were left alone: vocab.txt, clozeworks.json, "
        "special_tokens_map.json …\n"
    )
    assert "1 document read from 1 file" in outcome.out


def test_pairs_in_columns(command, tokenizer_folder, tmp_path):
    source = tmp_path / "a.tsv"
    source.write_text("one\ttwo\nThe cat. It sat.\tA dog.\n")
    columns = ["--column", "one", "--column", "two"]
    found = build(command, tokenizer_folder, tmp_path, source, *columns, "--sentences", "lines")
    assert [len(document) for document in found] == [2]
    found = build(command, tokenizer_folder, tmp_path, source, *columns)
    assert [len(document) for document in found] == [3]


def test_duplicates(command, tokenizer_folder, tmp_path):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("The cat.\n\nA dog.\n\nThe cat.")
    (tmp_path / "c.txt").symlink_to(tmp_path / "a.txt")
    inputs = [tmp_path / name for name in ("a.txt", "b.txt", "c.txt")]
    wanted = ["--tokenizer", tokenizer_folder, "--validation", "0"]
    outcome = command("corpus", "build", *inputs, *wanted, "--out", tmp_path / "one")
    assert "6 documents read from 2 files, 4 exact duplicates dropped\n" in outcome.out
    both = [*wanted, "--keep-duplicates", "--out", tmp_path / "two"]
    outcome = command("corpus", "build", *inputs, *both)
    assert "6 documents read from 2 files, 0 exact duplicates dropped\n" in outcome.out


def test_what_a_build_says(command, tokenizer_folder, tmp_path):
    source, out = tmp_path / "a.txt", tmp_path / "my corpus"
    source.write_text("The cat sat. A dog lay.\n\nThe river.\n\nThe cat sat. A dog lay.\n\n\u200b")
    arguments = [source, "--tokenizer", tokenizer_folder, "--out", out, "--validation", "0"]
    outcome = command("corpus", "build", *arguments)
    assert (outcome.code, outcome.err) == (0, "")
    steady = re.sub(r"\d+\.\d s \([\d,]+ a second\)", "… s", outcome.out)
    assert steady == (
        "                  train\n"
        "documents             2\n"
        "sentences             3\n"
        "tokens               11\n"
        "tokens per word    1.00\n"
        "unknown tokens   0.000%\n"
        "shards                1\n"
        "4 documents read from 1 file, 1 exact duplicate dropped, 1 without any token\n"
        "11 tokens in … s\n"
        f"Look into it: clozeworks corpus show '{out}'\n"
    )
    again = command("corpus", "build", *arguments)
    assert (
        "\nIt exists already, built from files of these names and sizes; nothing was done.\n"
        "Look into it: " in again.out
    )
    assert " s (" not in again.out


def test_the_page_of_a_corpus(command, corpus):
    outcome = command("corpus", "show", corpus)
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0] == str(corpus)
    assert re.fullmatch(r"tokenizer: wordpiece, \d+ entries, [0-9a-f]{12}", lines[1])
    assert lines[3].split() == ["train", "validation"]
    assert (
        "made with: encoding=utf-8, documents=blank-line, sentences=split, validation=0.2" in lines
    )
    begin = lines.index("sentences by number of tokens")
    bars = lines[begin + 1 : lines.index("", begin)]
    assert len({len(line.split("█")[0].split("▏")[0].rstrip()) for line in bars}) == 1
    assert max(line.count("█") for line in bars) == 40
    samples = lines[lines.index("samples") + 1 :]
    assert [line.split()[0] for line in samples] == ["train"] * 3 + ["validation"] * 3
    assert command("corpus", "show", corpus).out == outcome.out
    assert command("corpus", "show", corpus, "--seed", "1").out != outcome.out
    short = command("corpus", "show", corpus, "--samples", "0").out
    assert outcome.out.startswith(short.rstrip()) and "samples" not in short


def test_samples_are_short_harmless_and_each_shown_once(command, tiny_models, tmp_path):
    source, out = tmp_path / "a.jsonl", tmp_path / "out"
    lines = ["red \x1b[31m bell \x07", "the cat " * 1000, "so it is", "so it was"]
    source.write_text("\n".join(map(json.dumps, lines)))
    wanted = ["--tokenizer", tiny_models["roberta"], "--validation", "0", "--sentences", "lines"]
    command("corpus", "build", source, *wanted, "--out", out)
    shown = command("corpus", "show", out, "--samples", "4").out
    assert "sentence 0: red \\x1b[31m bell \\x07\n" in shown
    assert re.search(r"sentence 1: (the cat )+(the|t|th)? ?… \([\d,]+ tokens\)\n", shown)
    assert max(map(len, shown.splitlines())) < 260
    batch = command("corpus", "batch", out, "--objective", "simcse", "--show", "9").out
    for text in (shown, batch):
        assert "\x1b" not in text and "\x07" not in text
    for seed in range(5):
        shown = command("corpus", "show", out, "--samples", "3", "--seed", seed).out
        assert len(set(re.findall(r"train sentence (\d)", shown))) == 3


def test_verify_says_what_it_checked(command, corpus):
    count = len(list(corpus.glob("*.safetensors")))
    outcome = command("corpus", "verify", corpus)
    assert outcome.out == f"{corpus}: All {count} shards are as the manifest says.\n"


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_batch_of_a_step(command, corpus, objective):
    asked = ["corpus", "batch", corpus, "--objective", objective, "--length", "48", "--step", "5"]
    outcome = command(*asked)
    assert (outcome.code, outcome.err) == (0, "")
    head, blank, *rest = outcome.out.splitlines()
    pattern = r"step 5 of (\w+), epoch \d+\.\d\d: ([\d,]+) examples, ([\d,]+) tokens; asked: .+"
    match = re.fullmatch(pattern, head)
    assert match and match[1] == objective and blank == ""
    assert 3000 < int(match[3].replace(",", "")) < 5200
    views = 2 if objective == "simcse" else 1
    shown = [line for line in rest if line.startswith("example ")]
    assert len(shown) == 3 * views
    assert all(re.search(r", number [\d,]+(, view [12] of 2)?\): \d+ tokens$", x) for x in shown)
    for part in re.findall(r"(\w+) [\d,]+(?:,|$)", head.split("asked: ")[1]):
        assert sum(line.startswith(f"  {part}: ") for line in rest) == 3
    assert command(*asked).out == outcome.out
    assert command(*asked, "--seed", "1").out != outcome.out
    shutil.rmtree(corpus / "index", ignore_errors=True)
    assert command(*asked).out == outcome.out


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_two_ranks_share_a_step(command, corpus, objective):
    asked = ["corpus", "batch", corpus, "--objective", objective, "--length", "48", "--step", "7"]
    asked += ["--show", "999"]

    def examples(*more):
        outcome = command(*asked, *more)
        assert outcome.code == 0
        blocks = outcome.out.split("\nexample ")[1:]
        # Its number in the batch, and among which candidates its positive stands, are a rank's own.
        return [re.sub(r"candidate \d+", "", block.partition(" ")[2]).strip() for block in blocks]

    whole = examples()
    first, second = (examples("--rank", rank, "--ranks", "2") for rank in (0, 1))
    assert len(first) > 3 and len(second) > 3
    assert first + second == whole


def test_the_loader_gives_what_is_printed(command, corpus):
    from clozeworks.objectives.batch import Vocabularies
    from clozeworks.objectives.published import published

    opened = Corpus.open(corpus)
    objective, split = published("roberta", 32), opened.split("validation")
    examples = objective.chosen_examples().arrange(split, opened.tokenizer, 3, None)
    source = Vocabularies.of(opened.tokenizer, split)
    loader = Loader(examples, lambda x: objective.batch(x, 3, source), seed=3, batch_tokens=512)
    made = loader.batch(11)
    printed = command(
        *("corpus", "batch", corpus, "--objective", "roberta", "--length", "32", "--seed", "3"),
        *("--step", "11", "--split", "validation", "--tokens", "512", "--show", "1"),
    ).out
    line = printed.splitlines()[3]
    shown = re.sub(r"⟨(?:[^⟨⟩→]+→)?([^⟨⟩]+)⟩", r"\1", line).split()
    tokenizer = Tokenizer.load(corpus / "tokenizer")
    ids = made.ids[: made.lengths[0]].tolist()
    assert shown == [tokenizer.token_of(number) for number in ids]


def test_help(command):
    outcome = command("corpus", "--help")
    assert outcome.code == 0
    for name in ("build", "show", "verify", "batch"):
        assert f"│ {name} " in outcome.out
        about = command("corpus", name, "--help")
        assert about.code == 0 and f"Usage: clozeworks corpus {name} " in about.out
        assert "--empty-" not in about.out and "--no-" not in about.out.replace("--no-header", "")


def test_an_objective_written_out(command, built):
    table = (
        '{kind = "sum", parts = [{kind = "masked_lm", hide = {kind = "whole_words"}}, '
        '{kind = "next_sentence", examples = {kind = "next_sentence_pairs", length = 24}}]}'
    )
    said = command("corpus", "batch", built, "--objective", table, "--show", 1)
    assert said.code == 0, said.err
    assert said.out.startswith("step 0 of masked_lm + next_sentence, epoch 0.00: ")


def test_tokens_asked_in_an_order(command, built):
    said = command("corpus", "batch", built, "--objective", "xlnet", "--length", 28, "--show", 3)
    assert said.code == 0, said.err
    lines = re.findall(r"^  permuted_lm: (.+)$", said.out, flags=re.MULTILINE)
    assert len(lines) == 3
    pattern = r"(\d) tokens? (is|are) asked, in this order: ((\S+ ?)+)"
    assert all(re.match(pattern, line) for line in lines)
    assert any("; the first 12 tokens are memory" in line for line in lines)


def test_whether_texts_were_swapped_or_one_is_random(command, built, tokenizer_folder, tmp_path):
    asked = ("--objective", "albert", "--length", "24", "--show", "1000")
    shown = command("corpus", "batch", built, *asked).out
    meanings = set(re.findall(r"^  sentence_order: ([01] \(.+\))$", shown, flags=re.MULTILINE))
    assert meanings == {
        "0 (the texts stand in order)",
        "1 (the texts were swapped)",
        "1 (the second text is a random one)",
    }
    (tmp_path / "a.txt").write_text("the cat sat on the mat. a dog. the house.\n", encoding="utf-8")
    alone = ("--tokenizer", tokenizer_folder, "--validation", 0, "--out", tmp_path / "one")
    assert command("corpus", "build", tmp_path / "a.txt", *alone).code == 0
    shown = command("corpus", "batch", tmp_path / "one", *asked).out
    assert "sentence_order: 1 (the texts were swapped, or one is random)" in shown


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--objective", "{kind = "], "it is not a table"),
        (["--objective", '{kind = "masked_ml"}'], "Did you mean 'masked_lm'?"),
        (["--objective", '{kind = "masked_lm"}', "--length", 9], "the objective is written out"),
        (["--objective", '{kind = "masked_lm"}'], "it must say what forms an example"),
    ],
)
def test_an_objective_written_wrongly(command, built, options, sentence):
    said = command("corpus", "batch", built, *options)
    assert said.code == 2
    assert sentence in said.err
