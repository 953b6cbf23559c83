"""Pairs and triplets of made-up texts, scored pairs to measure on, and a small model."""

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
THINGS = {
    "en": ("cat", "dog", "river", "garden", "house", "car", "tree", "boat", "road", "lamp"),
    "zh": ("猫", "狗", "河", "花园", "房子", "汽车", "树", "船", "路", "灯"),
}
SAYING = {
    "en": ("where is the {}", "the {} is here", "no {} there"),
    "zh": ("{}在哪里", "{}在这里", "没有{}"),
}
SHORT = {"finetune embed": ("training.epochs=1",)}


def prepare(folder, language):
    ask, say, deny = SAYING[language]
    things = THINGS[language]
    rows = [
        {"anchor": ask.format(a) + str(n), "positive": say.format(a) + str(n)}
        for n in range(2)
        for a in things
    ]
    texts = [text for row in rows for text in row.values()]
    tokenizer = train_from_iterator(texts, kind="wordpiece", size=150)
    cw.new("bert-tiny", tokenizer, **SMALL).save(folder / "model")
    triplets = [
        {**row, "negative": deny.format(things[(n + 3) % 10]) + str(n)}
        for n, row in enumerate(rows)
    ]
    alone = [{"text": text} for text in texts]
    for name, several in (("pairs", rows), ("triplets", triplets), ("texts", alone)):
        lines = [json.dumps(row, ensure_ascii=False) for row in several]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with (folder / "sts.csv").open("w", encoding="utf-8", newline="") as file:
        scored = [
            (ask.format(a), say.format(b), 4.5 if a == b else 0.5)
            for a in things[:4]
            for b in things[:4]
        ]
        csv.writer(file).writerows([("sentence1", "sentence2", "score"), *scored])


def followed(folder, names):
    assert names["vectors"].shape == (2, 32)
    assert (folder / "nested" / "model" / "modules.json").exists()
    assert (folder / "rebuilt" / "model" / "modules.json").exists()
