"""Made-up reviews to learn from and to measure on, and a small model."""

import csv

import clozeworks as cw
from clozeworks.text.training.train import train_from_iterator

SIZES = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
SIZES |= {"intermediate_size": 64}
WORDS = {
    "en": ("The {} was {}.", ("room", "bed", "pool", "bus"), {"good": "clean", "bad": "dirty"}),
    "zh": ("{}{}。", ("房间", "床", "泳池", "早餐"), {"好评": "很干净", "差评": "很脏"}),
}


def prepare(folder, language):
    pattern, things, said = WORDS[language]
    rows = [
        (pattern.format(thing, word), label) for thing in things for label, word in said.items()
    ]
    tokenizer = train_from_iterator([text for text, _ in rows], kind="wordpiece", size=100)
    cw.new("bert-tiny", tokenizer, **SIZES).save(folder / "model")
    for name, count in (("reviews", 6), ("test", 2)):
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *rows * count])


def followed(folder, names):
    names["Tempered"].is_slot = True  # no other test finds it
    assert names["tempered"].load().checkpoint.notes["task"]["temperature"] == 1.5
    assert names["focused"].best.measured.primary == "share_of_right"
    assert names["vectors"].shape == (48, 32)
    assert (folder / "runs" / "tempered-1").exists()
