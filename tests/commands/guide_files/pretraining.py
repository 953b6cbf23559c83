"""A small corpus in English or Chinese, and the recipes of the project."""

import shutil
from pathlib import Path

import pytest

import clozeworks as cw
from clozeworks.data.corpus.build import BuildSettings, build_corpus
from clozeworks.text.training.train import train_from_iterator

RECIPES = Path(__file__).resolve().parents[3] / "src" / "clozeworks" / "recipes"
SHORT = {
    "pretrain": (
        "training.steps=4",
        "training.batch_tokens=256",
        "data.stages=[{length = 64}]",
        "training.schedule.warmup_steps=1",
        "evaluation.tokens=256",
    )
}
DOCUMENTS = {
    "en": (
        "The children love to read on day {}. Do they learn? They do! The school is near.",
        "The river is long and old. On day {} it rose. We love the river and the garden.",
    ),
    "zh": (
        "我爱学习。第{}天，孩子们在学校读书。他们学会了吗？学会了！学校很近。",
        "我爱练习写字。第{}天下雨了，河水上涨。我们爱这条河，也爱花园！",
    ),
}


def prepare(folder, language):
    words = None
    if language == "zh":
        pytest.importorskip("jieba")
        words = "jieba"
    patterns = DOCUMENTS[language]
    texts = [patterns[number % len(patterns)].format(number) for number in range(400)]
    (folder / "texts.txt").write_text("\n\n".join(texts), encoding="utf-8")
    tokenizer = train_from_iterator(texts, kind="wordpiece", size=300)
    settings = BuildSettings(validation=0.1, words=words)
    build_corpus([folder / "texts.txt"], folder / "corpus", tokenizer, settings, workers=1)
    shutil.copytree(RECIPES, folder / "recipes")


def followed(folder, names):
    for run in ("run", "mine", "more"):
        assert (folder / run / "report.html").exists()
    model = cw.load(folder / "more" / "model")
    assert "span_boundary" not in model.blueprint.heads
    if "我" in model.tokenizer.vocabulary():
        found = model.fill("我爱[MASK]习", words=["学", "练"])
        assert {guess.word for guess in found.gaps[0]} == {"学", "练"}
        assert found.best in ("我爱学习", "我爱练习")
