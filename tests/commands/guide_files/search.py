"""Made-up articles about animals and weather, queries, and a small model."""

import json

import clozeworks as cw
from clozeworks.text.training.train import train_from_iterator

SIZES = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
SIZES |= {"intermediate_size": 64}
TEXTS = {
    "en": ["A cat sleeps on the mat.", "A dog barks at a bird.", "It rains.", "The sun shines."],
    "zh": ["一只猫在垫子上睡觉。", "一只狗对着鸟叫。", "下雨了。", "太阳出来了。"],
}


def prepare(folder, language):
    texts = TEXTS[language]
    tokenizer = train_from_iterator(texts * 3, kind="wordpiece", size=120)
    cw.new("bert-tiny", tokenizer, **SIZES).save(folder / "model")
    rows = [
        {"id": f"a{n}", "title": f"{n}", "text": text, "year": 2019 + n}
        for n, text in enumerate([*texts, texts[0]])
    ]
    for name, some in (("articles", rows), ("more", [{**rows[1], "id": "b1"}])):
        lines = "".join(json.dumps(row) + "\n" for row in some)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    (folder / "queries.txt").write_text("\n".join(texts[:2]) + "\n", encoding="utf-8")


def followed(folder, names):
    assert len((folder / "unique.jsonl").read_text().splitlines()) == 4
    assert len(names["index"]) == 2
    left = {document.id for document in cw.Index.open(folder / "index").documents()}
    assert left == {"a0", "a1", "a2", "a3", "a4", "b1"}
