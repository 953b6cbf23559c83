"""A model, texts of its kind, and pairs with scores."""

import random

import numpy as np

import clozeworks as cw
from clozeworks.text.training.train import train_from_iterator

WORDS = {
    "en": ["the", "cat", "sat", "on", "a", "mat", "and", "dog", "lay", "in", "its", "garden"],
    "zh": ["猫", "狗", "坐", "在", "垫子", "上", "花园", "里", "河流", "城市", "很", "老"],
}
SHAPE = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}


def prepare(folder, language):
    rng, words = random.Random(0), WORDS[language]
    space = "" if language == "zh" else " "
    texts = [space.join(rng.choices(words, k=rng.randint(4, 10))) for _ in range(150)]
    texts = list(dict.fromkeys(texts))
    tokenizer = train_from_iterator([*texts, "the cat sat on the mat"], kind="wordpiece", size=200)
    cw.new("bert-tiny", tokenizer, intermediate_size=16, **SHAPE).save(folder / "model")
    (folder / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    rows = [f"{rng.choice(texts)}\t{rng.choice(texts)}\t{number % 6}" for number in range(40)]
    table = "\n".join(["sentence1\tsentence2\tscore", *rows]) + "\n"
    (folder / "pairs.tsv").write_text(table, encoding="utf-8")


def followed(folder, names):
    assert (folder / "space.html").exists() and (folder / "repaired.html").exists()
    repaired, again = cw.load(folder / "repaired"), cw.load(folder / "repaired-too")
    texts = names["texts"]
    assert repaired.embed(texts).shape == (len(texts), 8)
    # The order of the texts is another, so sums differ in the last digits.
    np.testing.assert_allclose(repaired.embed(texts), again.embed(texts), atol=1e-2)
    assert abs(again.space(texts).mean_cosine) < 0.05 < names["space"].mean_cosine
    assert names["small"].shape == (len(texts), 4)
    assert cw.load(folder / "weighted").pooling.modes == ("tf_idf_mean",)
