"""`clozeworks index` and `clozeworks search`: what is found, what is refused, what is kept."""

import json
import shutil

import numpy as np
import pytest

import clozeworks as cw
from clozeworks.errors import InputError, UnsupportedError

ROWS = [
    {"_id": "a", "title": "Cats", "text": "The cat sat on the mat.", "year": 2001, "kind": "pet"},
    {"_id": "b", "title": "Dogs", "text": "The dog lay on the rug.", "year": 2002, "kind": "pet"},
    {"_id": "c", "title": "Cities", "text": "Paris lies on the Seine.", "year": 2003},
    {"_id": "d", "title": "首都", "text": "北京是中国的首都。", "year": 2004},
]


@pytest.fixture(scope="session")
def searched_model(tiny_models):
    return tiny_models["bert"]


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return path


@pytest.fixture
def folder(command, rows, searched_model, tmp_path):
    out = tmp_path / "index"
    made = command("index", rows, "--column", "text", "-m", searched_model, "-o", out)
    assert made.code == 0, made.err
    assert "4 documents read" in made.err and f"{out} holds 4, vectors of width 32." in made.err
    return out


def found(command, *arguments):
    outcome = command("search", *arguments, "--json")
    assert outcome.code == 0, outcome.err
    return [json.loads(line) for line in outcome.out.splitlines()]


def test_the_scores_are_those_of_embed(command, folder, searched_model):
    (answer,) = found(command, folder, "the cat on the rug")
    model = cw.load(searched_model)
    texts = [row["text"] for row in ROWS]
    expected = model.similarity("the cat on the rug", texts)[0]
    order = np.argsort(-expected)
    assert [hit["id"] for hit in answer["results"]] == [ROWS[n]["_id"] for n in order]
    scores = [hit["score"] for hit in answer["results"]]
    np.testing.assert_allclose(scores, expected[order], atol=1e-6)
    assert answer["results"][0]["columns"].keys() >= {"title", "year"}


def test_words_and_both(command, folder):
    (words,) = found(command, folder, "首都 in the dark", "--by", "words")
    assert words["results"][0]["id"] == "d"
    (both,) = found(command, folder, "首都", "--by", "both", "-k", "2")
    ranks = [hit["ranks"] for hit in both["results"]]
    first = both["results"][0]
    assert first["score"] == pytest.approx(sum(1 / (60 + rank) for rank in ranks[0].values()))
    assert len(both["results"]) == 2
    plain = command("search", folder, "首都", "--by", "both")
    assert "words 1" in plain.out and "北京是中国的首都。" in plain.out


def test_conditions_and_queries_of_a_file(command, folder, tmp_path, refused):
    queries = tmp_path / "queries.txt"
    queries.write_text("cat\ndog\n", encoding="utf-8")
    answers = found(command, folder, queries, "--where", "year>=2002", "--where", "kind=pet")
    assert [[hit["id"] for hit in answer["results"]] for answer in answers] == [["b"], ["b"]]
    shown = command("search", folder, queries, "--where", "year>=2222")
    assert shown.out == "cat\n  nothing found\n\ndog\n  nothing found\n\n"
    refused(
        "--where is 'colour'; known: kind, title, year.",
        *("search", folder, "cat", "--where", "colour=red"),
    )
    refused(
        "--where is 'red'; a condition is a column, one of = != < <= > >=, and a value; write it "
        "as in year>=2020.",
        *("search", folder, "cat", "--where", "red"),
    )


def test_adding_and_removing(command, folder, rows):
    again = command("index", rows, "--column", "text", "-o", folder)
    assert "0 embedded, 4 known" in again.err
    rows.write_text(
        json.dumps({**ROWS[0], "text": "A cat sleeps."}) + "\n" + json.dumps(ROWS[1]) + "\n",
        encoding="utf-8",
    )
    pruned = command("index", rows, "--column", "text", "-o", folder, "--prune")
    assert "1 embedded, 1 known, 1 replaced, 2 removed" in pruned.err
    assert command("index", "-o", folder, "--remove", "b", "--remove", "x").out == (
        f"1 document removed (1 were not there); {folder} holds 1.\n"
    )
    (answer,) = found(command, folder, "cat")
    assert [hit["passage"] for hit in answer["results"]] == ["A cat sleeps."]


def test_another_model_is_refused(command, folder, rows, tiny_models, tmp_path, refused):
    other = tmp_path / "other"
    model = cw.load(tiny_models["bert"])
    for parameter in model.model.parameters():
        parameter.data.mul_(1.5).add_(0.01)
    model.save(other)
    start = f"the index was made with {tiny_models['bert'].resolve()}, and {other} "
    end = (
        "; vectors of different models cannot be compared; use the model of the index, or build "
        "another index with --out."
    )
    refused(f"{start}gives other vectors{end}", "search", folder, "cat", "-m", other)
    outcome = command("index", rows, "--column", "text", "-m", other, "-o", folder)
    assert outcome.err.endswith(f"{start}gives other vectors{end}\n")
    model = cw.load(tiny_models["bert"])
    model.pooling = cw.Pooling(modes=("first",))
    with pytest.raises(InputError, match=r"pools otherwise \(first pooling, not mean pooling\)"):
        cw.Index.open(folder, model)
    shutil.rmtree(other)
    cw.load(tiny_models["roberta"]).save(other)
    refused(f"{start}has another tokenizer{end}", "search", folder, "cat", "-m", other)
    assert len(cw.Index.open(folder, tiny_models["bert"])) == 4


def test_long_documents_give_their_best_passage(command, searched_model, tmp_path):
    text = tmp_path / "long.txt"
    sentences = [f"The cat sat on mat number {n} and the dog lay on the rug." for n in range(12)]
    sentences[7] = "Paris lies on the Seine."
    text.write_text(" ".join(sentences), encoding="utf-8")
    out = tmp_path / "index"
    made = command(
        *("index", text, "--documents", "file", "--passage-tokens", "24"),
        *("-m", searched_model, "-o", out),
    )
    assert made.code == 0 and " passages" in made.err
    (answer,) = found(command, out, "Paris lies on the Seine.")
    (hit,) = answer["results"]
    assert hit["id"] == str(text) and "Paris lies on the Seine." in hit["passage"]
    assert text.read_text()[hit["begin"] : hit["end"]] == hit["passage"]
    refused = command("index", text, "-o", out, "--documents", "file", "--passage-tokens", "30")
    assert "holds passages of 24 tokens, and 30 are asked for; choose another" in refused.err


def test_codes_are_used_and_say_what_they_find(command, searched_model, made_up, tmp_path):
    text = tmp_path / "texts.txt"
    text.write_text("\n".join(made_up(n) for n in range(300)), encoding="utf-8")
    for codes in ("int8", "binary"):
        out = tmp_path / codes
        made = command("index", text, "-m", searched_model, "-o", out, "--codes", codes)
        assert f"{codes} codes with rescoring: " in made.err, made.err
        assert "of the 10 nearest that an exact search finds" in made.err
        (quick,), (exact,) = (found(command, out, made_up(7), *more) for more in ((), ("--exact",)))
        assert quick["results"][0] == exact["results"][0]
        assert quick["results"][0]["id"] == f"{text}:8"
    quick, exact = (
        [hit["id"] for hit in found(command, tmp_path / "int8", "cat", *more)[0]["results"]]
        for more in ((), ("--exact",))
    )
    assert quick == exact


def test_neighbours(command, searched_model, made_up, tmp_path, monkeypatch):
    pytest.importorskip("usearch")
    text = tmp_path / "texts.txt"
    text.write_text("\n".join(made_up(n) for n in range(200)), encoding="utf-8")
    out = tmp_path / "index"
    made = command("index", text, "-m", searched_model, "-o", out, "--neighbours")
    assert "The graph of neighbours: " in made.err, made.err
    quick, exact = found(command, out, made_up(7)), found(command, out, made_up(7), "--exact")
    assert quick[0]["results"][0] == exact[0]["results"][0]
    command("index", "-o", out, "--remove", f"{text}:8")
    assert f"{text}:8" not in str(found(command, out, made_up(7)))
    data = (out / "neighbours.usearch").read_bytes()
    (out / "neighbours.usearch").write_bytes(data[:-9] + b"damaged!!")
    outcome = command("search", out, "cat")
    assert outcome.code == 2 and "neighbours.usearch is damaged (its content is another)" in (
        outcome.err
    )


def test_reranking(command, folder, searched_model, tmp_path):
    judge = tmp_path / "judge"
    model = cw.load(searched_model).for_task(cw.tasks.Compare(labels=("0", "1")), seed=1)
    model.save(judge)
    (answer,) = found(command, folder, "the cat", "--rerank", judge)
    expected = model.compare([("the cat", row["text"]) for row in ROWS])
    scores = {row["_id"]: each.scores["1"] for row, each in zip(ROWS, expected, strict=True)}
    order = sorted(scores, key=lambda name: (-scores[name], name))
    assert [hit["id"] for hit in answer["results"]] == order
    assert answer["results"][0]["score"] == pytest.approx(scores[order[0]], abs=1e-5)
    cross_encoder = cw.load(searched_model).for_task(cw.tasks.Rerank(activation="identity"), seed=1)
    hits = cw.Index.open(folder).search("the cat", rerank=cross_encoder)
    ranking = cross_encoder.rerank("the cat", [row["text"] for row in ROWS])
    assert [hit.id for hit in hits] == [ROWS[each.index]["_id"] for each in ranking]
    assert hits[0].score == pytest.approx(ranking[0].score, abs=1e-6)
    with pytest.raises(UnsupportedError, match="cannot rerank documents"):
        cw.Index.open(folder).search("the cat", rerank=searched_model)


def test_bad_input(command, folder, rows, searched_model, tmp_path, refused):
    long = "the cat sat on the mat and " * 200
    outcome = command("search", folder, long)
    assert outcome.code == 2
    assert outcome.err == (
        "clozeworks: the query has 1,402 tokens; at most 512 are allowed; shorten it, or ask "
        "several queries.\n"
    )
    refused(
        f"{tmp_path} is not an index; an index is a folder with an index.json; name another one, "
        "or build one with `clozeworks index`.",
        *("search", tmp_path, "cat"),
    )
    rows.write_text(json.dumps(ROWS[0]) + "\n" + json.dumps(ROWS[0]) + "\n", encoding="utf-8")
    refused(
        f"{rows}, line 2 and {rows}, line 1 have the same id, 'a'; ids must be unique; change "
        "one, or name another column with --id-column.",
        *("index", rows, "--column", "text", "-m", searched_model, "-o", tmp_path / "new"),
    )
    refused(
        "--model is missing; texts become vectors by a sentence model; name one.",
        *("index", rows, "--column", "text", "-o", tmp_path / "new"),
    )
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("precious")
    refused(
        f"{tmp_path / 'other'} holds other files (thesis.txt); an index needs a folder of its "
        "own; choose another one with --out.",
        *("index", rows, "--column", "text", "-m", searched_model, "-o", tmp_path / "other"),
    )
    command("index", "-o", folder, *(word for row in ROWS for word in ("--remove", row["_id"])))
    outcome = command("search", folder, "cat")
    assert outcome.err == (
        f"clozeworks: {folder} holds no documents; there is nothing to find; add some first.\n"
    )


def test_python(searched_model, tmp_path):
    index = cw.Index.build(["A cat.", "A dog.", "A cat."], searched_model, tmp_path / "index")
    assert len(index) == 2
    assert [hit.passage for hit in index.search("A cat.", top=1)] == ["A cat."]
    counts = index.add([{"id": 7, "text": "A river.", "year": 3}, {"text": "A dog."}])
    assert (counts.embedded, counts.kept) == (1, 1)
    assert [hit.id for hit in index.search("x", where={"year": 3})] == ["7"]
    assert [[hit.passage for hit in hits] for hits in index.search(["dog", "cat"], by="words")] == [
        ["A dog."],
        ["A cat."],
    ]
    assert index.remove("7") == 1 and repr(index).endswith("2 documents)")
    with pytest.raises(InputError, match=r"document 1 has no text; a document is a text, or a"):
        index.add([{"id": "x"}])
    with pytest.raises(InputError, match="query 2 is blank; ask for something"):
        index.search(["a", " "])


def test_duplicates_and_topics(command, searched_model, tmp_path):
    path = tmp_path / "texts.csv"
    texts = ["The cat sat.", "The dog lay on the rug in the house.", "The cat sat.", "北京"]
    lines = [f"{n},{text},{2000 + n}\n" for n, text in enumerate(texts)]
    path.write_text("id,text,year\n" + "".join(lines), encoding="utf-8")
    kept, out = tmp_path / "kept", tmp_path / "unique.csv"
    outcome = command(
        *("duplicates", path, "-m", searched_model, "--threshold", 0.9999, "--index", kept),
        *("--out", out),
    )
    assert outcome.out == " 1.000  0  The cat sat.\n 1.000= 2  The cat sat.\n\n"
    assert outcome.err.endswith(
        f"1 group with 1 duplicate among 4 texts, 1 with the same text; the other 3 are in {out}.\n"
    )
    left = [line for n, line in enumerate(lines) if n != 2]
    assert out.read_text(encoding="utf-8") == "id,text,year\n" + "".join(left)
    outcome = command("duplicates", kept, "--threshold", 0.9999, "--json")
    (group,) = map(json.loads, outcome.out.splitlines())
    assert [each["id"] for each in group["texts"]] == ["0", "2"]
    outcome = command("topics", kept, "-k", 2, "--json")
    topics = [json.loads(line) for line in outcome.out.splitlines()]
    assert sorted(name for topic in topics for name in topic["ids"]) == ["0", "1", "2", "3"]
    assert command("topics", kept).code == 0


def test_what_duplicates_and_topics_refuse(command, rows, tmp_path, refused):
    refused(
        "--threshold is 2.0; it must be from -1 to 1.",
        *("duplicates", rows, "--threshold", 2),
    )
    sentence = (
        "--model is missing; texts become vectors by a sentence model; name one, or an index that "
        "was built."
    )
    refused(sentence, "topics", rows, "--column", "text")
    refused(sentence, "duplicates", rows, "--column", "text")
    refused(
        f"{tmp_path / 'none'} does not exist; check the name and the folder.",
        *("topics", tmp_path / "none"),
    )


def test_verify_compares_every_byte(command, folder):
    whole = command("verify", folder)
    assert whole.code == 0 and whole.out == (
        f"{folder}: 1 file compared with the size and sha256 of when it was written.\n"
        f"{folder}: nothing is wrong with this index.\n"
    )
    (path,) = folder.glob("shard-*")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    outcome = command("verify", folder)
    assert outcome.code == 2 and outcome.err == (
        f"clozeworks: 1 fault:\n{path} is not as it was saved: its content is another; restore "
        "it, or build the index again.\n"
    )
    assert f"{folder} is an index, whose files are made by" in (
        command("verify", folder, "--accept").err
    )


def test_ctrl_c_keeps_what_is_done(command, searched_model, made_up, tmp_path, monkeypatch):
    from clozeworks.jobs.search.embedding import SentenceEmbedder

    text, out = tmp_path / "texts.txt", tmp_path / "index"
    text.write_text("\n".join(made_up(n) for n in range(30)), encoding="utf-8")
    embed, chunks = SentenceEmbedder.documents, []

    def stopping(self, documents):
        chunks.append(len(documents))
        if len(chunks) == 3:
            raise KeyboardInterrupt
        return embed(self, documents)

    with monkeypatch.context() as patch:
        patch.setattr("clozeworks.data.chunks.CHUNK_ITEMS", 10)
        patch.setattr(SentenceEmbedder, "documents", stopping)
        stopped = command("index", text, "-m", searched_model, "-o", out)
    assert stopped.code == 130
    sentence = f"Stopped. {out} holds 20 documents. Run the same command again to go on.\n"
    assert stopped.err.endswith(sentence)
    early = command("search", out, "the cat")
    assert early.code == 0 and f"{out} is not complete: it holds 20 documents so far" in early.err
    assert "10 embedded, 20 known" in command("index", text, "-o", out).err


def test_ctrl_c_of_a_replacement_says_what_is_there(
    command, searched_model, folder, rows, monkeypatch, tmp_path
):
    from clozeworks.jobs.search.embedding import SentenceEmbedder

    def stopping(self, documents):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(SentenceEmbedder, "documents", stopping)
        text = tmp_path / "texts.txt"
        text.write_text("the cat sat\n", encoding="utf-8")
        replaced = command("index", text, "-m", searched_model, "-o", folder, "--overwrite")
        fresh = command("index", text, "-m", searched_model, "-o", tmp_path / "new", "--overwrite")
    assert replaced.code == fresh.code == 130
    assert replaced.err.endswith(
        "It is the index that was there; the same command begins the new one again.\n"
    )
    assert fresh.err.endswith("Run the same command without --overwrite to go on.\n")
    assert command("search", folder, "the cat").code == 0


def test_a_full_disk_is_a_sentence(command, searched_model, rows, folder, monkeypatch):
    from clozeworks.search import shard

    def full(path, arrays):
        with shard.atomic_file(path):
            raise OSError(28, "No space left on device")

    rows.write_text(json.dumps({"_id": "z", "text": "A new text."}) + "\n", encoding="utf-8")
    monkeypatch.setattr(shard, "write_arrays", full)
    outcome = command("index", rows, "--column", "text", "-o", folder)
    assert outcome.code == 2
    kept, complaint = outcome.err.splitlines()
    assert kept == f"{folder} holds 4 documents."
    assert "shard-000001.safetensors could not be written: No space left on device" in complaint
    monkeypatch.undo()
    assert "1 embedded" in command("index", rows, "--column", "text", "-o", folder).err


def test_neighbours_need_a_library(command, rows, searched_model, tmp_path, monkeypatch, refused):
    monkeypatch.setitem(__import__("sys").modules, "usearch.index", None)
    refused(
        "Approximate search needs the library 'usearch', which is not installed; install it with: "
        "pip install 'clozeworks[search]'.",
        *("index", rows, "-m", searched_model, "-o", tmp_path / "new", "--neighbours"),
    )
