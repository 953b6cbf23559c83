"""Made-up texts of three subjects, pairs and triplets of them, a test collection, two models."""

import csv
import json
from itertools import pairwise

import clozeworks as cw
from clozeworks.tasks.compare import Compare
from clozeworks.text.training.train import train_from_iterator

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}
SUBJECTS = {
    "en": {
        "cats": ("the cat sleeps", "a cat plays", "two cats eat", "my cat is old"),
        "rain": ("it rains today", "the rain stops", "heavy rain falls", "rain and wind"),
        "bread": ("fresh bread smells", "we bake bread", "bread with butter", "he buys bread"),
    },
    "zh": {
        "猫": ("猫在睡觉", "一只猫在玩", "两只猫在吃", "我的猫老了"),
        "雨": ("今天下雨", "雨停了", "下大雨", "又下雨又刮风"),
        "面包": ("新鲜的面包很香", "我们烤面包", "面包加黄油", "他买面包"),
    },
}


def table(path, names, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([names, *rows])


def lines(path, rows):
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")


def prepare(folder, language):
    subjects = SUBJECTS[language]
    subject_of = {text: name for name, texts in subjects.items() for text in texts}
    texts = list(subject_of)
    tokenizer = train_from_iterator(texts, kind="wordpiece", size=120)
    for seed, name in enumerate(("model", "other")):
        cw.new("bert-tiny", tokenizer, seed=seed, **SMALL).save(folder / name)
    task = Compare(labels=("relevance",), problem="number")
    cw.load(folder / "model").for_task(task).save(folder / "reranker")
    every = [(a, b, float(subject_of[a] == subject_of[b])) for a in texts for b in texts if a < b]
    scored = [(a, b, 4 * same + len(b) % 2) for a, b, same in every]
    table(folder / "sts.csv", ("sentence1", "sentence2", "score"), scored)
    for part, name in enumerate(("dev", "test")):
        rows = [(a, b, int(same)) for a, b, same in every[part::2]]
        table(folder / f"duplicates-{name}.csv", ("sentence1", "sentence2", "label"), rows)
    asked = [(name, text, int(subject_of[text] == name)) for name in subjects for text in texts]
    table(folder / "questions.csv", ("query", "document", "label"), asked)
    pairs = [(a, b) for several in subjects.values() for a, b in pairwise(several)]
    lines(folder / "pairs.jsonl", [{"anchor": a, "positive": b} for a, b in pairs])
    other = {name: texts[(4 * number + 5) % 12] for number, name in enumerate(subjects)}
    lines(
        folder / "triplets.jsonl",
        [{"anchor": a, "positive": b, "negative": other[subject_of[a]]} for a, b in pairs],
    )
    articles = folder / "articles"
    (articles / "qrels").mkdir(parents=True)
    lines(articles / "corpus.jsonl", [{"_id": f"d{n}", "text": t} for n, t in enumerate(texts)])
    lines(articles / "queries.jsonl", [{"_id": f"q{n}", "text": s} for n, s in enumerate(subjects)])
    for part, name in enumerate(("test", "dev", "train")):
        rows = [f"q{n}\td{4 * n + part}\t1\nq{n}\td{4 * n + 3}\t2" for n in range(len(subjects))]
        text = "\n".join(["query-id\tcorpus-id\tscore", *rows])
        (articles / "qrels" / f"{name}.tsv").write_text(text)


def followed(folder, names):
    assert len(json.loads((folder / "said.jsonl").read_text().splitlines()[0])["similarity"]) == 1
    first = (folder / "triplets-train.jsonl").read_text(encoding="utf-8").splitlines()[0]
    assert {*json.loads(first)} == {"anchor", "positive", "negative"}
    header, *rows = (folder / "mined.tsv").read_text(encoding="utf-8").splitlines()
    assert header == "anchor\tpositive\tnegative" and len(rows) == 3 * 2 * 2
    assert names["found"].low <= names["found"].value <= names["found"].high
