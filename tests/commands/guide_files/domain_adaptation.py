"""General text, a model that was trained on it, text of a field, and a few labels of that field."""

import random
import shutil
import tempfile
from pathlib import Path

import pytest

import clozeworks as cw
from clozeworks.data.corpus.build import build_corpus
from clozeworks.data.corpus.corpus import Corpus
from clozeworks.text.training.train import train_from_iterator

SHORT = {
    "pretrain": (
        "training.steps=100",
        "training.batch_tokens=1024",
        "training.learning_rate=5e-3",
        "training.schedule.warmup_steps=5",
        "evaluation.every_steps=0",
        "evaluation.tokens=1024",
    ),
    "finetune": ("training.epochs=4", "training.learning_rate=5e-3", "evaluation.per_epoch=1"),
}
SMALL = {
    "hidden_size": 32,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
GENERAL = {
    "en": "the quick brown fox jumps over the lazy dog and {} boxes of very good wax on day {}",
    "zh": "我爱学习，也爱在第{1}天去公园看{0}只鸟。天气很好！你去吗？医生也去，请按时用药。",
}
THINGS = {
    "en": ("atorvastatin", "clopidogrel", "metoprolol", "amiodarone"),
    "zh": ("阿托伐他汀", "氯吡格雷", "美托洛尔", "胺碘酮"),
}
SENTENCES = {
    "en": "patient {0} takes {1} daily and the echocardiogram of day {0} shows {2} stenosis",
    "zh": "患者{0}每日服用{1}。第{0}天超声心动图提示{2}狭窄！是否需要支架？复查mRNA水平。",
}
GRADES = {"en": ("mild", "severe"), "zh": ("轻度", "重度")}
# Enough that a thousand words can be held out.
DOCUMENTS = {"en": 2000, "zh": 800}
LABELS = {"en": ("wait", "treat"), "zh": ("观察", "治疗")}


def field(language, number):
    """A document of the field, and its label."""
    kind = random.Random(number).randrange(2)
    thing, grade = THINGS[language][number % 4], GRADES[language][kind]
    text = SENTENCES[language].format(number, thing, grade)
    return text, LABELS[language][kind]


def general(language, number):
    return GENERAL[language].format(number % 7, number)


def written(path, lines):
    path.write_text("\n\n".join(lines) + "\n", encoding="utf-8")


def prepare(folder, language):
    if language == "zh":
        pytest.importorskip("jieba")
    texts = [general(language, number) for number in range(600)]
    trained(folder, texts, train_from_iterator(texts, kind="wordpiece", size=250))
    written(
        folder / "field.txt", [field(language, number)[0] for number in range(DOCUMENTS[language])]
    )
    written(folder / "unseen.txt", [field(language, number)[0] for number in range(9000, 9100)])
    written(folder / "general.txt", [general(language, number) for number in range(9000, 9100)])
    for name, first, last in (("train", 3000, 3060), ("dev", 4000, 4030), ("test", 5000, 5060)):
        rows = [",".join(field(language, number)) for number in range(first, last)]
        (folder / f"{name}.csv").write_text("\n".join(["text,label", *rows]), encoding="utf-8")


def trained(folder, texts, tokenizer):
    """Makes a checkpoint that knows the general text."""
    with tempfile.TemporaryDirectory() as place:
        written(Path(place, "general.txt"), texts)
        build_corpus([Path(place, "general.txt")], Path(place, "corpus"), tokenizer, workers=1)
        training = {
            "steps": 100,
            "batch_tokens": 1024,
            "learning_rate": 1e-2,
            "optimizer": {"kind": "adam_w"},
            "schedule": {"kind": "linear", "warmup_steps": 5},
        }
        found = cw.pretrain(
            {
                "run": f"{place}/run",
                "objective": "roberta",
                "model": {"start": "bert-tiny", "config": SMALL},
                "data": {"corpus": f"{place}/corpus", "stages": [{"length": 64}]},
                "training": training,
                "evaluation": {"every_steps": 0, "tokens": 1024},
            }
        )
        shutil.copytree(found.model, folder / "model")


def followed(folder, names):
    costs = names["costs"]
    assert len({cost.words for cost in costs.values()}) == 2  # the same words of each file
    new, old = costs["unseen.txt", "adapted/model"], costs["unseen.txt", "model"]
    assert new.per_word < old.per_word / 1.5 and new.tokens <= old.tokens
    # What was known of other text is forgotten.
    assert costs["general.txt", "adapted/model"].per_word > costs["general.txt", "model"].per_word
    before, after = cw.load(folder / "model"), cw.load(folder / "adapted" / "model")
    assert after.tokenizer.size > before.tokenizer.size
    if "我" not in before.tokenizer.vocabulary():
        return
    # Every character is a token, so that only characters it lacked and Latin words are new.
    added = list(after.tokenizer.vocabulary())[before.tokenizer.size :]
    assert "汀" in added and all(len(piece) == 1 for piece in added if not piece.isascii())
    assert Corpus.open(folder / "corpus").manifest["made"]["settings"]["words"] == "jieba"
    filled = after.fill("我爱[MASK]习", words=["学", "复"])
    assert {guess.word for guess in filled.gaps[0]} == {"学", "复"}
    assert filled.best in ("我爱学习", "我爱复习")
