"""Folders of tasks both ways: labels, heads and answers are the same here and in transformers."""

import json
from functools import cache

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file

import clozeworks as cw
from clozeworks.inference.predict import window_logits
from clozeworks.tasks.answer import Answer
from clozeworks.tasks.classify import PUBLISHED_PROBLEMS, Classify, TextItem
from clozeworks.tasks.compare import Compare, PairItem
from clozeworks.tasks.spans.questions import QuestionItem
from clozeworks.tasks.tag import Tag
from clozeworks.tasks.tagging.items import WordsItem
from clozeworks.text.training.train import train_from_iterator

pytestmark = pytest.mark.parity

SENTENCE = "the fox ran from London to New York and the lazy dog slept é 🙂"
TEXTS = ["the fox ran", "the lazy dog slept from London to York 🙂", "fox"]
TAGS = ("O", "B-LOC", "I-LOC")
NAMES = {
    "albert": "Albert",
    "bert": "Bert",
    "roberta": "Roberta",
    "distilbert": "DistilBert",
    "electra": "Electra",
    "modernbert": "ModernBert",
    "deberta": "Deberta",
    "deberta-v2": "DebertaV2",
}
# Kind and size of a family's tokenizer, where it is not WordPiece.
KINDS = {
    "albert": ("unigram", 60),
    "roberta": ("bpe", 300),
    "modernbert": ("bpe", 300),
    "deberta": ("bpe", 300),
    "deberta-v2": ("unigram", 60),
}
SMALL = {
    "albert": (
        "albert-base-v1",
        {
            "hidden_size": 32,
            "embedding_size": 20,
            "num_hidden_layers": 4,
            "num_hidden_groups": 2,
            "num_attention_heads": 2,
            "intermediate_size": 48,
        },
    ),
    "bert": (
        "bert-tiny",
        {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 48},
    ),
    "roberta": (
        "roberta-base",
        {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 48,
        },
    ),
    "distilbert": ("distilbert-base", {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 48}),
    "electra": (
        "electra-small",
        {
            "hidden_size": 32,
            "embedding_size": 20,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 48,
        },
    ),
    "modernbert": (
        "modernbert-base",
        {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 48,
            "local_attention": 8,
        },
    ),
    "deberta": (
        "deberta-base",
        {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 48,
            "max_relative_positions": 20,
        },
    ),
    "deberta-v2": (
        "deberta-v3-base",
        {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 48,
            "max_relative_positions": 20,
            "position_buckets": 8,
        },
    ),
}
TASKS = {
    "one": Classify(labels=("bad", "good", "so so")),
    "several": Classify(labels=("red", "green"), problem="several"),
    "number": Classify(labels=("stars",), problem="number"),
    "pairs": Compare(labels=("same", "other")),
    "tag": Tag(labels=TAGS),
    "answer": Answer(threshold=0.5),
}
HEADS = {
    Classify: "SequenceClassification",
    Tag: "TokenClassification",
    Answer: "QuestionAnswering",
}

families = pytest.mark.parametrize("family", NAMES)
tasks = pytest.mark.parametrize("name", TASKS)


@cache
def tokenizer_of(family):
    kind, size = KINDS.get(family, ("wordpiece", 120))
    return train_from_iterator([SENTENCE] * 5, kind=kind, size=size)


def encoder(family):
    size, changes = SMALL[family]
    return cw.new(size, tokenizer_of(family), initializer_range=0.3, **changes)


def stirred(model, seed=5):
    """Heads begin near 0, where every answer is alike."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.model.named_parameters():
            if name.startswith(("heads.", "pooler.")):
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)
    return model


def head_of(task):
    return next(head for kind, head in HEADS.items() if isinstance(task, kind))


def items_of(task):
    if isinstance(task, Compare):
        return [PairItem(text, "the dog") for text in TEXTS]
    if isinstance(task, Tag):
        return [WordsItem.of_words(text.split()) for text in TEXTS]
    if isinstance(task, Answer):
        return [QuestionItem("the fox ran", text) for text in TEXTS]
    return [TextItem(text) for text in TEXTS]


def their_model(task, folder):
    """The peer's model of a folder, into which every weight must fit."""
    auto = getattr(transformers, f"AutoModelFor{head_of(task)}")
    model, report = auto.from_pretrained(folder, output_loading_info=True)
    for key in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not report[key]
    return model.eval()


def their_scores(task, folder):
    """What the peer says, from a folder alone: a row of scores for each text, or each token."""
    model = their_model(task, folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    found = []
    for item in items_of(task):
        given = {
            PairItem: lambda item: (item.first, item.second),
            QuestionItem: lambda item: (item.question, item.context),
        }.get(type(item), lambda item: (item.text,))(item)
        with torch.no_grad():
            said = model(**tokenizer(*given, return_tensors="pt"))
        if isinstance(task, Answer):
            rows = torch.stack([said.start_logits, said.end_logits], dim=-1)[0]
        else:
            rows = said.logits[0]
        if isinstance(task, Tag):
            encoded = tokenizer(item.text)
            rows = rows[[encoded.char_to_token(begin) for begin, _ in item.spans]]
        found.append(rows.numpy())
    return found


def our_scores(task, model):
    windows = task.windows_of(items_of(task), model.tokenizer, model.max_length)
    return window_logits(task, model.model, windows)


def same_scores(left, right):
    for mine, other in zip(left, right, strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-5, rtol=1e-5)


@tasks
@families
def test_they_load_what_we_save(family, name, tmp_path):
    task = TASKS[name]
    model = stirred(encoder(family).for_task(task))
    model.save(tmp_path / "ours")
    config = their_model(task, tmp_path / "ours").config
    same_scores(our_scores(task, model), their_scores(task, tmp_path / "ours"))
    assert config.architectures == [f"{NAMES[family]}For{head_of(task)}"]
    if isinstance(task, Answer):
        assert config.num_labels == 2
        assert config.problem_type is None
        return
    assert config.num_labels == len(task.labels)
    assert config.id2label == dict(enumerate(task.labels))
    assert config.label2id == {label: number for number, label in enumerate(task.labels)}
    problem = PUBLISHED_PROBLEMS[task.problem] if isinstance(task, Classify) else None
    assert config.problem_type == problem


@tasks
@families
def test_a_head_of_another_task_leaves_nothing_behind(family, name, tmp_path):
    task = TASKS[name]
    other = Classify(labels=("a", "b", "c", "d", "e"), problem="several")
    model = stirred(encoder(family).for_task(other).for_task(task))
    model.save(tmp_path / "ours")
    same_scores(our_scores(task, model), their_scores(task, tmp_path / "ours"))
    stated = json.loads((tmp_path / "ours" / "config.json").read_text())
    fresh = encoder(family).for_task(task)
    fresh.save(tmp_path / "fresh")
    assert stated == json.loads((tmp_path / "fresh" / "config.json").read_text())


@pytest.fixture
def theirs(peer, tmp_path):
    """A folder the peer saved, with labels."""

    def make(family, task):
        changes = {"vocab_size": tokenizer_of(family).size}
        if not isinstance(task, Answer):
            changes |= {"id2label": dict(enumerate(task.labels)), "num_labels": len(task.labels)}
            changes["label2id"] = {label: number for number, label in enumerate(task.labels)}
        if isinstance(task, Classify):
            changes["problem_type"] = PUBLISHED_PROBLEMS[task.problem]
        model = peer(f"{NAMES[family]}For{head_of(task)}", **changes)
        if isinstance(task, Tag):
            # A random head may see the middle of an entity everywhere, which no scheme allows.
            model.classifier.bias.data[TAGS.index("I-LOC")] -= 2
        model.save_pretrained(tmp_path / "theirs")
        tokenizer_of(family).save(tmp_path / "theirs")
        return tmp_path / "theirs"

    return make


@tasks
@families
def test_we_load_what_they_save(family, name, theirs, tmp_path):
    task = TASKS[name]
    folder = theirs(family, task)
    model = cw.load(folder)
    # A published config cannot say that texts come in pairs, or when there is no answer.
    expected = Classify(labels=task.labels) if name == "pairs" else task
    assert model.task == (Answer() if name == "answer" else expected)
    same_scores(our_scores(task, model), their_scores(task, folder))
    model.save(tmp_path / "again")
    before, after = (
        load_file(place / "model.safetensors") for place in (folder, tmp_path / "again")
    )
    assert before.keys() == after.keys()
    assert all(before[key].numpy().tobytes() == after[key].numpy().tobytes() for key in before)
    config, again = (their_model(task, place).config for place in (folder, tmp_path / "again"))
    for key in ("id2label", "label2id", "num_labels", "problem_type", "architectures"):
        assert getattr(config, key) == getattr(again, key), key
    assert cw.load(tmp_path / "again").task == model.task


@pytest.mark.parametrize("name", ["one", "several", "number"])
@families
def test_text_classification_pipeline(family, name, theirs):
    folder = theirs(family, TASKS[name])
    pipeline = transformers.pipeline("text-classification", str(folder), top_k=None)
    for answer, said in zip(cw.load(folder).classify(TEXTS), pipeline(TEXTS), strict=True):
        expected = {entry["label"]: entry["score"] for entry in said}
        if name == "number":
            assert answer.label == pytest.approx(expected["stars"], abs=1e-5)
        else:
            assert answer.scores == pytest.approx(expected, abs=1e-6)
        if name == "one":
            assert (answer.label, answer.score) == (said[0]["label"], max(answer.scores.values()))


@families
def test_token_classification_pipeline(family, theirs):
    """The scores of first pieces; where the best tags in a row are valid, the tags too."""
    folder = theirs(family, TASKS["tag"])
    pipeline = transformers.pipeline("token-classification", str(folder), ignore_labels=[])
    model, compared = cw.load(folder), 0
    words = SENTENCE.split()
    for text in (" ".join(words[first : first + 4]) for first in range(len(words) - 3)):
        said = pipeline(text)
        answer = model.tag(text)
        assert answer.words == tuple(text.split())
        firsts = [
            next(entry for entry in said if entry["start"] <= begin < entry["end"])
            for begin, _ in answer.spans
        ]
        best = [TAGS.index(entry["entity"]) for entry in firsts]
        if model.task.moves.allow(np.array(best)):
            compared += 1
            assert list(answer.tags) == [entry["entity"] for entry in firsts]
            assert answer.scores == pytest.approx([entry["score"] for entry in firsts], abs=1e-6)
    assert compared


def weights(model):
    return {name: parameter.detach().clone() for name, parameter in model.model.named_parameters()}


def test_the_pooler_of_bert_is_taken_over(peer, tmp_path):
    peer("BertModel", vocab_size=tokenizer_of("bert").size).save_pretrained(tmp_path / "bert")
    base = cw.load(tmp_path / "bert")
    before, after = weights(base), weights(base.for_task(TASKS["one"]))
    fresh = {"heads.classes.project.weight", "heads.classes.project.bias"}
    assert after.keys() - before.keys() == fresh
    assert before.keys() <= after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_the_pooler_of_roberta_is_not_its_classifier(peer, tmp_path):
    peer("RobertaModel", vocab_size=300).save_pretrained(tmp_path / "roberta")
    base = cw.load(tmp_path / "roberta")
    before, after = weights(base), weights(base.for_task(TASKS["one"]))
    pooler = {"pooler.dense.weight", "pooler.dense.bias"}
    assert pooler <= before.keys() & after.keys()
    assert all(torch.equal(before[name], after[name]) == (name not in pooler) for name in before)
    assert not torch.equal(
        after["pooler.dense.weight"],
        weights(base.for_task(TASKS["one"], seed=1))["pooler.dense.weight"],
    )


@pytest.mark.parametrize("name", ["one", "tag", "answer"])
@families
def test_a_head_of_the_same_task_is_kept(family, name, theirs):
    task = TASKS[name]
    model = cw.load(theirs(family, task))
    before, after = weights(model), weights(model.for_task(task))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)


@pytest.mark.parametrize("name", ["one", "tag"])
@families
def test_labels_may_stand_in_another_order_but_others_begin_anew(family, name, theirs, tmp_path):
    task = TASKS[name]
    model = cw.load(theirs(family, task))
    before = weights(model)
    head = {key for key in before if key.startswith("heads.")}
    turned = type(task)(labels=task.labels[::-1])
    model.for_task(turned).save(tmp_path / "turned")
    expected = [rows[..., ::-1] for rows in our_scores(task, model)]
    same_scores(their_scores(turned, tmp_path / "turned"), expected)
    for other in (("O", "B-MISC", "I-MISC"), (*task.labels, "B-MISC")):
        after = weights(model.for_task(type(task)(labels=other)))
        assert before.keys() == after.keys()
        assert all(torch.equal(before[key], after[key]) == (key not in head) for key in before)
