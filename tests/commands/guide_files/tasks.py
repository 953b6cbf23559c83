"""Made-up reviews, and a model that has seen their words."""

import clozeworks as cw
from clozeworks.text.training.train import train_from_iterator

WORDS = {
    "en": ("the {} is {} on day {}", ("cat", "dog", "house", "garden"), ("good", "bad")),
    "zh": ("第{2}天，{0}很{1}。", ("猫", "狗", "房子", "花园"), ("好", "差")),
}
SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}


def rows(language, first, last):
    pattern, things, judgements = WORDS[language]
    return [
        (
            pattern.format(things[number % 4], judgements[number % 2], number),
            ("yes", "no")[number % 2],
        )
        for number in range(first, last)
    ]


def written(pairs):
    return "text,label\n" + "".join(f"{text},{label}\n" for text, label in pairs)


def prepare(folder, language):
    texts = [text for text, _ in rows(language, 0, 100)]
    cw.new("bert-tiny", train_from_iterator(texts, kind="wordpiece", size=300), **SMALL).save(
        folder / "model"
    )
    (folder / "reviews.csv").write_text(written(rows(language, 0, 40)), encoding="utf-8")
    (folder / "more.csv").write_text(written(rows(language, 40, 60)), encoding="utf-8")


def followed(folder, names):
    assert (folder / "reviews" / "model" / "config.json").exists()
    assert len((folder / "answers.jsonl").read_text().splitlines()) == 20
    assert names["found"][1].windows > 1
