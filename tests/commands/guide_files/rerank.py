"""Made-up queries with documents of three subjects, and an encoder."""

import csv
import json

import clozeworks as cw
from clozeworks.text.training.train import train_from_iterator

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}
SUBJECTS = {
    "en": {
        "how do cats sleep": ("A cat sleeps all day.", "Cats sleep on their side."),
        "will it rain": ("Heavy rain falls.", "It rains today."),
        "who bakes bread": ("We bake bread.", "He bakes bread with butter."),
    },
    "zh": {
        "猫怎么睡觉": ("猫整天睡觉。", "猫侧着身子睡觉。"),
        "会下雨吗": ("下大雨。", "今天下雨。"),
        "谁烤面包": ("我们烤面包。", "他烤面包加黄油。"),
    },
}
SHORT = {"finetune": ("training.epochs=1",)}


def prepare(folder, language):
    subjects = SUBJECTS[language]
    documents = [text for texts in subjects.values() for text in texts]
    tokenizer = train_from_iterator([*subjects, *documents] * 3, kind="wordpiece", size=160)
    cw.new("bert-tiny", tokenizer, **SMALL).save(folder / "model")
    rows = [
        {"query": f"{query} {n}", "document": text, "label": int(text in texts), "bm25": n + place}
        for n in range(3)
        for query, texts in subjects.items()
        for place, text in enumerate(documents)
    ]
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (folder / "rows.jsonl").write_text(lines, encoding="utf-8")
    (folder / "documents.txt").write_text("\n".join(documents) + "\n", encoding="utf-8")
    with (folder / "pairs.csv").open("w", encoding="utf-8", newline="") as file:
        pairs = [(query, text) for query in subjects for text in documents]
        csv.writer(file).writerows([("query", "document"), *pairs])


def followed(folder, names):
    assert cw.load(folder / "run" / "model").task.activation == "sigmoid"
    assert len(names["model"].rerank("q", ["a", "b"])) == 2
