"""BM25 on SciFact gives the published quality (0.661 with a plain tokenizer)."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from clozeworks.search.bm25 import Postings, bm25
from clozeworks.tasks.metrics.retrieval import retrieval

DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "retrieval" / "scifact"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not DATA.is_dir(), reason="the real data folder is not here"),
]


def rows(name):
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_ndcg_at_10():
    corpus = rows("corpus")
    queries = {row["_id"]: row["text"] for row in rows("queries")}
    qrels: dict[str, dict[str, int]] = {}
    for line in (DATA / "qrels" / "test.tsv").read_text().splitlines()[1:]:
        query, document, grade = line.split("\t")
        qrels.setdefault(query, {})[document] = int(grade)
    texts = [f"{row['title']}\n{row['text']}" for row in corpus]
    shards = [Postings.of(texts[:2000]), Postings.of(texts[2000:])]
    alive = [np.ones(2000, np.bool_), np.ones(len(texts) - 2000, np.bool_)]
    run = {}
    for query in qrels:
        positions, scores = bm25(queries[query], shards, alive)
        run[query] = {
            corpus[position]["_id"]: score
            for position, score in zip(positions.tolist(), scores.tolist(), strict=True)
        }
    found = retrieval(qrels, run, ["ndcg@10"]).values["ndcg@10"]
    assert len(qrels) == 300 and len(corpus) == 5183
    assert float(getattr(found, "value", found)) == pytest.approx(0.661, abs=0.002)
