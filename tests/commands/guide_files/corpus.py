"""News and packed mail in English or Chinese, and a tokenizer for them."""

import gzip
import json
from itertools import pairwise

import numpy as np
import pytest

from clozeworks.data.corpus.corpus import Corpus
from clozeworks.data.examples.loader import Loader
from clozeworks.objectives.batch import Vocabularies
from clozeworks.objectives.published import written
from clozeworks.text.training.train import train_from_iterator

FOLDERS = {"en": ("news", "mail"), "zh": ("新闻", "邮件")}
DOCUMENTS = {
    "en": (
        "The council met on day {}. Did the new bridge open? It did! Traffic was calm.",
        "Rain fell on day {} and the river rose. The old mill was closed. Nobody was hurt.",
        "A letter came on day {}. It said that the garden needs water. We went there at noon.",
    ),
    "zh": (
        "第{}天，市政府召开了会议。新大桥通车了吗？通车了！交通一切正常。",
        "第{}天下了大雨，河水上涨。老磨坊已经关闭。没有人受伤！",
        "第{}天收到一封信。信上说花园需要浇水。我们中午就去了，我爱学习，也爱北京。",
    ),
}
WHOLE_WORDS = (
    '{kind = "masked_lm", hide = {kind = "whole_words"}, '
    'examples = {kind = "doc_sentences", length = 128}}'
)


def prepare(folder, language):
    if language == "zh":
        pytest.importorskip("jieba")
    news, mail = (folder / name for name in FOLDERS[language])
    news.mkdir()
    (mail / "2024").mkdir(parents=True)
    patterns = DOCUMENTS[language]
    texts = [patterns[number % len(patterns)].format(number) for number in range(300)]
    (news / "a.txt").write_text("\n\n".join(texts[:150]), encoding="utf-8")
    rows = "\n".join(json.dumps({"text": text}, ensure_ascii=False) for text in texts[150:])
    (mail / "2024" / "b.jsonl.gz").write_bytes(gzip.compress(rows.encode()))
    (folder / "my-tokenizer").mkdir()
    train_from_iterator(texts, kind="wordpiece", size=400).save(folder / "my-tokenizer")


def followed(folder, names):
    assert names["batch"].counts().keys() == {"masked_lm", "next_sentence"}
    corpus = Corpus.open(folder / "corpus")
    split, tokenizer = corpus.split("train"), corpus.tokenizer
    words = hidden_words(split, tokenizer)
    assert words
    if not (folder / "新闻").exists():
        return
    bounds = split.sentence_offsets.tolist()
    for begin, end in pairwise(bounds):
        sentence = [tokenizer.token_of(int(number)) for number in split.read(begin, end)[0]]
        # Each ends with one of the marks, and has no other.
        assert [token for token in sentence if token in "。！？"] == sentence[-1:]
    assert {"北京", "学习", "大桥"} & words, words


def hidden_words(split, tokenizer):
    """The words that some steps hide; each as a whole."""
    objective = written(WHOLE_WORDS)
    source = Vocabularies.of(tokenizer, split)
    loader = Loader(
        objective.chosen_examples().arrange(split, tokenizer, 0),
        lambda clean: (clean, objective.batch(clean, 0, source)),
        seed=0,
        batch_tokens=4096,
        workers=0,
    )
    found = set()
    for step in range(3):
        clean, batch = loader.batch(step)
        hidden = np.zeros(len(clean.ids), np.bool_)
        hidden[batch.targets["masked_lm"]["positions"]] = True
        begins = np.flatnonzero(clean.word_starts | clean.special)
        for begin, end in pairwise([*begins.tolist(), len(clean.ids)]):
            assert hidden[begin:end].all() or not hidden[begin:end].any()
            if hidden[begin]:
                pieces = [tokenizer.token_of(int(number)) for number in clean.ids[begin:end]]
                found.add("".join(piece.removeprefix("##") for piece in pieces))
    return found
