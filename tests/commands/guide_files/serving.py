"""A classifier, a sentence model, a GPT-2 and an index, and a server that the guide's lines ask."""

from contextlib import contextmanager
from queue import SimpleQueue
from threading import Thread

import clozeworks as cw
from clozeworks.serve.application import answering
from clozeworks.serve.loading import served_models
from clozeworks.serve.server import run
from clozeworks.tasks.classify import Classify
from clozeworks.text.tokenizer.styles import GPT2_STYLE
from clozeworks.text.training.train import train_from_iterator

SIZES = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
SIZES |= {"intermediate_size": 64}
SHORT = {"serve": ("--dry-run",)}
ADDRESS = "http://127.0.0.1:8000"
STORY = "Once upon a time there was a cat who lived in a small house by the river."
TEXTS = {
    "en": ["Win a free prize now.", "See you at lunch.", "A dog barks at a bird."],
    "zh": ["立即领取免费奖品。", "午饭时见。", "一只狗对着鸟叫。"],
}
MODELS = {
    "spam": "runs/spam/model",
    "minilm": "all-MiniLM-L6-v2",
    "stories": "runs/stories/model",
    "pets": "pets",
}


def prepare(folder, language):
    texts = TEXTS[language]
    words = train_from_iterator(texts * 3, kind="wordpiece", size=150)
    model = cw.new("bert-tiny", words, **SIZES)
    model.save(folder / MODELS["minilm"])
    model.for_task(Classify(labels=("ham", "spam"))).save(folder / MODELS["spam"])
    pieces = train_from_iterator([STORY] * 4, kind="bpe", size=300, style=GPT2_STYLE)
    cw.new("gpt2", pieces, n_embd=32, n_layer=1, n_head=2, n_positions=64).save(
        folder / MODELS["stories"]
    )
    cw.Index.build(texts, folder / MODELS["minilm"], folder / MODELS["pets"])
    (folder / "texts.txt").write_text("\n".join(texts[:2]) + "\n", encoding="utf-8")


@contextmanager
def running(folder):
    """Serves what the guide's first line does, at a free port; that the guide's is read as."""
    served = served_models({name: folder / path for name, path in MODELS.items()})
    server, ready = answering(served), SimpleQueue()
    thread = Thread(target=run, args=(server, "127.0.0.1", 0), kwargs={"ready": ready.put})
    thread.start()
    try:
        yield {ADDRESS: ready.get(timeout=60)}
    finally:
        server.draining = True
        thread.join(timeout=60)


def followed(folder, names):
    assert names["spam"].classify("Win a free prize now.").label in ("ham", "spam")
    assert [route.path for route in names["app"].routes][-1] == "/models"
