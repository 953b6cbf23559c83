"""A masked model, a classifier, and texts with a word in two senses."""

import clozeworks as cw
from clozeworks.tasks.classify import Classify
from clozeworks.text.training.train import train_from_iterator

TEXTS = [
    "You have to set the value of the key.",
    "A set holds no element twice.",
    "It is possible to set the flag when the file is opened.",
    "Both functions return a new set of strings.",
    "Use this option to set the timeout.",
    "The set is empty.",
    "Every module has a name.",
    "The cat sat on the mat.",
    "苹果公司发布了新手机。",
    "她每天早上吃一个苹果。",
    "这棵树上结满了苹果。",
    "今天天气很好。",
]
SHAPE = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}


def prepare(folder, language):
    tokenizer = train_from_iterator(TEXTS * 3, kind="wordpiece", size=400)
    model = cw.new("bert-tiny", tokenizer, intermediate_size=16, **SHAPE)
    model.save(folder / "model")
    model.for_task(Classify(labels=("bad", "good"))).save(folder / "spam")
    (folder / "texts.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")


def followed(folder, names):
    assert (folder / "attention.html").exists() and (folder / "contexts.html").exists()
    assert (folder / "lens.safetensors").exists()
    assert names["view"].rest_fraction < 0.05
    assert names["contexts"].senses.most_frequent == 0.5
