"""Short documents of several sentences, and a tokenizer for them."""

import random
from itertools import pairwise

import numpy as np
import pytest

import clozeworks as cw
from clozeworks.data.corpus.corpus import Corpus
from clozeworks.data.examples.loader import Loader
from clozeworks.objectives.batch import Vocabularies
from clozeworks.objectives.published import published
from clozeworks.text.training.train import train_from_iterator

SHORT = {
    "pretrain": (
        "training.steps=150",
        "training.batch_tokens=1024",
        "training.learning_rate=1e-2",
        "training.schedule.warmup_steps=5",
        "evaluation.every_steps=0",
        "evaluation.tokens=1024",
        "model.config={hidden_size = 48, num_attention_heads = 2, intermediate_size = 128, "
        "hidden_dropout_prob = 0.0, attention_probs_dropout_prob = 0.0}",
    ),
    "pretrain sampled.toml": (
        "training.steps=6",
        "training.batch_tokens=1024",
        "objective.teacher_forcing.hold=3",
        "evaluation.tokens=1024",
    ),
}
DOCUMENTS = {
    "en": (
        "The ferry leaves the harbour at {}. Two sailors untie the ropes. "
        "A dog barks at the gulls. Then the engine starts and the pier grows small.",
        "Knead the dough for {} minutes. Let it rest under a cloth. Meanwhile heat the stove. "
        "Bake the bread until the crust sounds hollow.",
        "Room {} is on the second floor. Who has the key? The porter has it! "
        "He keeps it behind the desk.",
        "The old bridge was built in {}. A flood carried it away. The town collected money for "
        "years. Now a new bridge stands there.",
    ),
    "zh": (
        "渡船{}点离开港口。两名水手解开缆绳。一只小狗对着海鸥叫。随后发动机启动，码头越来越远。",
        "面团要揉{}分钟。盖上湿布，让它休息一会儿。这时把烤箱预热。面包烤到表皮金黄就可以了！",
        "{}号房间在二楼。钥匙在谁那里？在门卫那里！他把钥匙放在桌子后面。",
        "我爱学习，每天学习{}个小时。妹妹也爱学习。她问我：明天去图书馆吗？我说：一起去！",
    ),
}
PUBLISHED = ("bert", "roberta", "albert", "spanbert", "simcse")


def prepare(folder, language):
    if language == "zh":
        pytest.importorskip("jieba")
    patterns = DOCUMENTS[language]
    texts = [patterns[number % len(patterns)].format(number) for number in range(800)]
    random.Random(0).shuffle(texts)
    (folder / "texts.txt").write_text("\n\n".join(texts) + "\n", encoding="utf-8")
    unseen = [patterns[number % len(patterns)].format(number) for number in range(900, 940)]
    (folder / "unseen.txt").write_text("\n".join(unseen) + "\n", encoding="utf-8")
    (folder / "tokenizer").mkdir()
    train_from_iterator(texts, kind="wordpiece", size=500).save(folder / "tokenizer")


def followed(folder, names):
    corpus = Corpus.open(folder / "corpus")
    split, tokenizer = corpus.split("train"), corpus.tokenizer
    asked = {name: first_batch(split, tokenizer, name)[1].counts() for name in PUBLISHED}
    assert asked["bert"].keys() == {"masked_lm", "next_sentence"}
    assert asked["roberta"].keys() == {"masked_lm"}  # it removes an objective and adds none
    assert asked["albert"].keys() == {"masked_lm", "sentence_order"}
    assert asked["spanbert"].keys() == {"masked_lm", "span_boundary"}
    assert asked["simcse"].keys() == {"contrastive"}
    costs = names["costs"]
    assert len({cost.words for cost in costs.values()}) == 1
    if "我" not in tokenizer.vocabulary():
        return
    for begin, end in pairwise(split.sentence_offsets.tolist()):
        sentence = [tokenizer.token_of(int(number)) for number in split.read(begin, end)[0]]
        assert [token for token in sentence if token in "。！？"] == sentence[-1:]
    words = hidden_words(*first_batch(split, tokenizer, "albert"), tokenizer)
    assert any(len(word) > 1 and not word.isascii() for word in words), words
    filled = cw.load(folder / "plain" / "model").fill("我爱[MASK]习")
    assert filled.best == "我爱学习"
    assert all(len(guess.word) == 1 for guess in filled.gaps[0]), filled


def first_batch(split, tokenizer, name):
    objective = published(name, 64)
    examples = objective.chosen_examples().arrange(split, tokenizer, 0)
    source = Vocabularies.of(tokenizer, split)
    loader = Loader(
        examples,
        lambda clean: (clean, objective.batch(clean, 0, source)),
        seed=0,
        batch_tokens=4096,
        workers=0,
    )
    return loader.batch(0)


def hidden_words(clean, batch, tokenizer):
    """The words that a step hides; none of them in part."""
    hidden = np.zeros(len(clean.ids), np.bool_)
    hidden[batch.targets["masked_lm"]["positions"]] = True
    begins = np.flatnonzero(clean.word_starts | clean.special).tolist()
    found = set()
    for begin, end in pairwise([*begins, len(clean.ids)]):
        assert hidden[begin:end].all() or not hidden[begin:end].any()
        if hidden[begin]:
            found.add("".join(tokenizer.token_of(int(n)) for n in clean.ids[begin:end]))
    return found
