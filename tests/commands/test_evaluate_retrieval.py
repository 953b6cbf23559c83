"""`clozeworks evaluate MODEL FOLDER`: how well documents of a test collection are found."""

import json

import pytest

import clozeworks as cw
from clozeworks.tasks.compare import Compare
from clozeworks.tasks.metrics.retrieval import RULES, retrieval

WORDS = ["cat", "dog", "house", "garden", "mat", "new", "old", "the", "on", "a"]
CORPUS = {str(n): f"{WORDS[n % 10]} {WORDS[(n * 7 + 3) % 10]} {WORDS[n % 3]}" for n in range(30)}
QUERIES = {f"q{n}": f"the {word}" for n, word in enumerate(WORDS[:6])}
QRELS = {"q0": {"0": 2, "10": 1}, "q1": {"1": 1}, "q2": {"2": 0}, "q3": {"23": 1, "4": 0}}


@pytest.fixture
def collection(tmp_path):
    folder = tmp_path / "found"
    (folder / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", CORPUS), ("queries", QUERIES)):
        lines = [json.dumps({"_id": each, "text": text}) for each, text in texts.items()]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    rows = [f"{q}\t{d}\t{g}" for q, grades in QRELS.items() for d, g in grades.items()]
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *rows]))
    (folder / "qrels" / "dev.tsv").write_text("q4\t4\t1\n")
    return folder


def brute(folder, query_prompt="", document_prompt=""):
    """The same by embedding everything at once."""
    model = cw.load(folder)
    queries, documents = (
        model.embed([prompt + text for text in texts.values()], normalize=True)
        for prompt, texts in ((query_prompt, QUERIES), (document_prompt, CORPUS))
    )
    scores = queries @ documents.T
    run = {
        q: dict(zip(CORPUS, row.tolist(), strict=True))
        for q, row in zip(QUERIES, scores, strict=True)
    }
    return retrieval(QRELS, {query: run[query] for query in QRELS}, intervals=True)


def test_values_are_those_of_ranking_everything_at_once(command, tiny_models, collection, tmp_path):
    wanted = brute(tiny_models["bert"])
    out = tmp_path / "o.jsonl"
    outcome = command("evaluate", tiny_models["bert"], collection, "--json", "--predictions", out)
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert (found["task"], found["count"], found["primary"]) == ("retrieval", 4, "ndcg@10")
    assert found["values"] == pytest.approx(wanted.values, abs=1e-6)
    assert found["intervals"]["ndcg@10"] == pytest.approx(wanted.intervals["ndcg@10"], abs=1e-6)
    assert found["notes"] == [
        RULES,
        f"1 query has no relevant document and counts 0; over the others ndcg@10 is "
        f"{wanted.value * 4 / 3:.3f}.",
        "2 queries have no judged document and are left out.",
    ]
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [each["id"] for each in records] == [*QRELS]
    assert records[0]["gold"] == QRELS["q0"] and len(records[0]["found"]) == 10
    scores = [each["score"] for each in records[0]["found"]]
    assert scores == sorted(scores, reverse=True)
    assert outcome.err.splitlines()[-1].startswith("4 queries in ")


def test_chunks_change_nothing(command, tiny_models, collection, monkeypatch):
    monkeypatch.setattr("clozeworks.data.chunks.CHUNK_ITEMS", 7)
    found = json.loads(command("evaluate", tiny_models["bert"], collection, "--json").out)
    assert found["values"] == pytest.approx(brute(tiny_models["bert"]).values, abs=1e-6)


def test_another_split_and_another_metric(command, tiny_models, collection):
    path = collection / "qrels" / "dev.tsv"
    outcome = command("evaluate", tiny_models["bert"], path, "--metric", "recall@20")
    lines = outcome.out.splitlines()
    assert lines[0] == f"retrieval, {tiny_models['bert']} on {collection} (dev): 1 query"
    assert lines[3].split()[0] == "recall@20" and lines[4].split()[0] == "ndcg@10"


def test_prompts_of_the_folder_stand_before_queries_and_documents(
    command, tiny_models, collection, tmp_path
):
    folder = cw.load(tiny_models["bert"]).save(tmp_path / "prompted")
    prompts = {"query": "old new ", "passage": "on a mat "}
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts}))
    outcome = command("evaluate", folder, collection, "--json")
    assert "Before queries stands the prompt query: 'old new '." in outcome.err
    assert "Before documents stands the prompt passage: 'on a mat '." in outcome.err
    wanted = brute(tiny_models["bert"], *prompts.values())
    assert json.loads(outcome.out)["values"] == pytest.approx(wanted.values, abs=1e-6)
    assert wanted.values != brute(tiny_models["bert"]).values


def test_documents_that_are_too_long_are_counted(command, tiny_models, collection):
    path = collection / "corpus.jsonl"
    path.write_text(path.read_text() + "\n" + json.dumps({"_id": "long", "text": "cat " * 2000}))
    outcome = command("evaluate", tiny_models["bert"], collection)
    assert "1 of 31 documents have more than" in outcome.err
    assert "the rest of each was not read." in outcome.err


def test_two_models_are_compared_query_by_query(command, tiny_models, collection):
    outcome = command("evaluate", tiny_models["bert"], tiny_models["bert"], collection)
    assert "A and B have the same ndcg@10 on 4 items." in outcome.out, outcome.err


def test_the_first_stage_stands_beside_the_reranked_order(
    command, tiny_models, collection, tmp_path, monkeypatch
):
    monkeypatch.setattr("clozeworks.language_model.retrieval.RERANKED", 8)
    task = Compare(labels=("relevance",), problem="number")
    second = cw.load(tiny_models["bert"]).for_task(task).save(tmp_path / "second")
    out = tmp_path / "o.jsonl"
    arguments = ("evaluate", tiny_models["bert"], collection, "--rerank", second, "--json")
    outcome = command(*arguments, "--predictions", out)
    assert outcome.code == 0, outcome.err
    values = json.loads(outcome.out)["values"]
    before = brute(tiny_models["bert"]).values
    stage = {name: value for name, value in values.items() if name.startswith("first_stage_")}
    wanted = {f"first_stage_{name}": value for name, value in before.items()}
    assert stage == pytest.approx(wanted, abs=1e-6)
    model = cw.load(second)
    for line in out.read_text().splitlines():
        record = json.loads(line)
        best = record["found"][:8]
        scores = [model.compare([(record["query"], CORPUS[each["id"]])])[0].label for each in best]
        assert [each["score"] for each in best] == pytest.approx(scores, abs=1e-5)
        assert scores == sorted(scores, reverse=True)
    assert "the reranked order" in outcome.err and "ndcg@10" in outcome.err


def test_only_found_documents_are_reranked(command, tiny_models, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("sentence1,sentence2,score\nthe cat,a dog,1\n")
    second = cw.load(tiny_models["bert"]).for_task(Compare(labels=("a", "b"))).save(tmp_path / "s")
    outcome = command("evaluate", tiny_models["bert"], path, "--rerank", second)
    assert outcome.code == 2
    assert "documents that were found are scored again, and there are none to find" in outcome.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--columns", "text=a"), "is a folder of documents, queries and judgements; leave it out"),
        (
            ("--metric", "accuracy"),
            "ndcg, mrr, map, recall, precision, with @ and a rank of at most 1,000,000; such as",
        ),
        (("--threshold", "0.5"), "is a folder of documents, queries and judgements; leave it out"),
    ],
)
def test_options_that_say_nothing_are_refused(command, tiny_models, collection, options, message):
    outcome = command("evaluate", tiny_models["bert"], collection, *options)
    assert outcome.code == 2 and message in outcome.err


def test_unknown_ids_are_a_sentence(command, tiny_models, collection):
    (collection / "qrels" / "test.tsv").write_text("q0\t0\t1\nq0\tx\t1\n")
    outcome = command("evaluate", tiny_models["bert"], collection)
    assert outcome.code == 2
    assert "document 'x' of query 'q0' is not in the corpus; add it, or leave the" in outcome.err
    outcome = command("evaluate", tiny_models["bert"], collection, "--skip-bad-rows")
    assert outcome.code == 0, outcome.err
    assert "1 bad row dropped, the first:" in outcome.err.splitlines()[-1]
