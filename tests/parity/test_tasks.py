"""Tasks against transformers: what is asked, scores, losses and gradients, eval and train."""

from functools import cache

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers

import clozeworks as cw
from clozeworks.engine.stages import MicroBatcher
from clozeworks.jobs.finetune.examples import TaskExamples
from clozeworks.objectives.batch import Vocabularies
from clozeworks.tasks.answer import Answer
from clozeworks.tasks.classify import PUBLISHED_PROBLEMS, Classify, TextItem
from clozeworks.tasks.compare import Compare, PairItem
from clozeworks.tasks.spans.questions import AnswerSpan, QuestionItem
from clozeworks.tasks.spans.windows import Windows
from clozeworks.tasks.tag import Tag
from clozeworks.tasks.tagging.items import WordsItem
from clozeworks.text.training.train import train_from_iterator

pytestmark = pytest.mark.parity

SENTENCE = "the fox ran from London to New York and the lazy dog slept é 🙂"
WORDS = SENTENCE.split()
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
ROOM = 40
LABELS = {"one": ("bad", "good", "so so"), "several": ("red", "green"), "number": ("stars",)}
TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")

families = pytest.mark.parametrize("family", NAMES)
modes = pytest.mark.parametrize("mode", ["eval", "train"])


@cache
def tokenizer_of(family):
    kind, size = KINDS.get(family, ("wordpiece", 120))
    return train_from_iterator([SENTENCE] * 5, kind=kind, size=size)


@pytest.fixture
def both(peer, tmp_path):
    """A model of the peer, and the same one here."""

    def make(family, head, mode, labels=None, **changes):
        if labels is not None:
            changes |= {"id2label": dict(enumerate(labels)), "num_labels": len(labels)}
        # The row of padding never learns there, so it must be the tokenizer's.
        changes |= {
            "vocab_size": tokenizer_of(family).size,
            "pad_token_id": tokenizer_of(family).pad_id,
        }
        theirs = peer(f"{NAMES[family]}For{head}", **changes)
        theirs.save_pretrained(tmp_path / "peer")
        tokenizer_of(family).save(tmp_path / "peer")
        ours = cw.load(tmp_path / "peer")
        ours.model.train(mode == "train")
        return theirs.train(mode == "train"), ours

    return make


def text_of(rng, count):
    return " ".join(["the", *(WORDS[n] for n in rng.integers(len(WORDS), size=count - 1))])


def examples_of(task, items, family):
    """All items as one batch, the clean examples, and the item each window belongs to."""
    tokenizer = tokenizer_of(family)
    clean = TaskExamples(task, items, tokenizer, max_length=ROOM).take(0, np.arange(len(items)))
    (batch,) = MicroBatcher(task, 0, Vocabularies.of(tokenizer), 10**6, 1)(clean)
    return batch, clean, clean.indices >> 20


def inputs_of(clean, batch, family):
    """What the peer is given: rows with padding."""
    ids = clean.rows(batch.ids, tokenizer_of(family).pad_id)
    inputs = {"input_ids": ids, "attention_mask": clean.real.astype(np.int64)}
    if family not in ("distilbert", "modernbert"):
        inputs["token_type_ids"] = clean.rows(batch.types, 0)
    return {name: torch.from_numpy(rows) for name, rows in inputs.items()}


def close(left, right, tolerance=1e-5):
    """Largest difference, relative to the largest value where that is above 1."""
    assert left.shape == right.shape
    scale = max(1.0, right.abs().max().item())
    difference = (left - right).abs().max().item()
    assert difference <= tolerance * scale, f"{difference} at scale {scale}"


@pytest.fixture
def agree(gradients_of):
    """Scores, loss and the gradient of every parameter are theirs."""

    def check(task, batch, ours, theirs, scores, loss):
        tensors = batch.tensors()
        hidden = ours.model(tensors.ids, tensors.layout, tensors.types)
        close(task.logits(ours.model, hidden, tensors.layout), scores)
        value = task.loss(ours.model, tensors).value()
        close(value, loss)
        value.backward()
        loss.backward()
        expected = gradients_of(theirs, ours.checkpoint)
        for name, parameter in ours.model.named_parameters():
            close(parameter.grad, expected.pop(name))
        assert not expected

    return check


@modes
@pytest.mark.parametrize("problem", LABELS)
@pytest.mark.parametrize("kind", [Classify, Compare])
@families
def test_classification(family, kind, problem, mode, both, agree):
    labels = LABELS[problem]
    theirs, ours = both(
        family,
        "SequenceClassification",
        mode,
        labels,
        problem_type=PUBLISHED_PROBLEMS[problem],
    )
    task = kind(labels=labels, problem=problem)
    assert ours.task == Classify(labels=labels, problem=problem)
    right = {
        "one": torch.tensor([2, 0, 1, 1, 2]),
        "several": torch.tensor([[0.0, 1.0], [0.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]),
        "number": torch.tensor([0.5, -3.0, 7.25, 0.0, 1.0]),
    }[problem]
    said = {
        "one": ["so so", "bad", "good", "good", "so so"],
        "several": [("green",), (), ("green", "red"), ("red",), "green"],
        "number": [0.5, -3.0, 7.25, 0, "1.0"],
    }[problem]
    rng = np.random.default_rng(1)
    texts = [text_of(rng, count) for count in (3, 90, 1, 12, 7)]
    items = [TextItem(text, label) for text, label in zip(texts, said, strict=True)]
    if kind is Compare:
        items = [PairItem(item.text, text_of(rng, 4), item.label) for item in items]
    batch, clean, owner = examples_of(task, items, family)
    assert np.bincount(owner)[1] > 2  # a text that does not fit is learned window by window
    expected = theirs(**inputs_of(clean, batch, family), labels=right[owner])
    agree(task, batch, ours, theirs, expected.logits, expected.loss)


@modes
@families
def test_tags(family, mode, both, agree, tmp_path):
    theirs, ours = both(family, "TokenClassification", mode, TAGS)
    task = ours.task
    assert task == Tag(labels=TAGS)
    rng = np.random.default_rng(2)
    items = []
    for count in (3, 1, 9, 6):
        words = text_of(rng, count).split()
        tags = [("O", "B-PER", "B-LOC")[n] for n in rng.integers(3, size=count)]
        items.append(WordsItem.of_words(words, tags))
    batch, clean, _ = examples_of(task, items, family)
    peer_tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "peer")
    encoded = peer_tokenizer([item.text for item in items], padding=True)
    labels = torch.full((len(items), len(encoded["input_ids"][0])), -100)
    for row, item in enumerate(items):
        for (begin, _), tag in zip(item.spans, item.tags, strict=True):
            labels[row, encoded.char_to_token(row, begin)] = TAGS.index(tag)
    inputs = inputs_of(clean, batch, family)
    assert inputs["input_ids"].tolist() == encoded["input_ids"]
    expected = theirs(**inputs, labels=labels)
    real = inputs["attention_mask"].bool()
    agree(task, batch, ours, theirs, expected.logits[real], expected.loss)


def questions(rng, counts, question="the fox ran"):
    """Each context has an answer of two words somewhere; the last has none."""
    found = []
    for count in counts:
        words = text_of(rng, count).split()
        first = int(rng.integers(count - 1))
        begin = len(" ".join(words[:first])) + bool(first)
        answer = AnswerSpan(" ".join(words[first : first + 2]), begin)
        found.append(QuestionItem(question, " ".join(words), (answer,)))
    return [*found[:-1], QuestionItem(question, found[-1].context, impossible=True)]


def ends_by_peer(folder, items, length, step):
    """Windows and right ends, made with the peer's tokenizer from its character maps."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    rows, ends = [], []
    for item in items:
        asked = tokenizer(item.question, add_special_tokens=False)["input_ids"]
        fixed = len(asked) + tokenizer.num_special_tokens_to_add(pair=True)
        encoded = tokenizer(
            item.question,
            item.context,
            truncation="only_second",
            max_length=length,
            stride=length - fixed - step,
            return_overflowing_tokens=True,
        )
        for row, ids in enumerate(encoded["input_ids"]):
            rows.append(ids)
            pieces = [
                (place, encoded.token_to_chars(row, place))
                for place, part in enumerate(encoded.sequence_ids(row))
                if part == 1
            ]
            right = item.answers[0] if item.answers else AnswerSpan("", -1)
            # A character may have several pieces: the first begins, the last ends.
            begins = [place for place, at in pieces if at.start <= right.begin < at.end]
            lasts = [place for place, at in pieces if at.start <= right.end - 1 < at.end]
            ends.append([begins[0], lasts[-1]] if begins and lasts else [0, 0])
    return rows, torch.tensor(ends)


@modes
@families
def test_answers(family, mode, both, agree, tmp_path):
    theirs, ours = both(family, "QuestionAnswering", mode)
    assert ours.task == Answer()
    task = Answer(windows=Windows(step=9))
    rng = np.random.default_rng(3)
    items = questions(rng, [5, 70, 70, 20, 3, 60, 9])
    batch, clean, _ = examples_of(task, items, family)
    rows, ends = ends_by_peer(tmp_path / "peer", items, ROOM, 9)
    inputs = inputs_of(clean, batch, family)
    real = inputs["attention_mask"].bool()
    assert [ids[mask].tolist() for ids, mask in zip(inputs["input_ids"], real, strict=True)] == rows
    assert (ends[:, 0] > 0).any() and (ends[:, 0] == 0).sum() > 1
    expected = theirs(**inputs)
    scores = torch.stack([expected.start_logits, expected.end_logits], dim=-1)
    # Their own loss counts padding as places an answer could stand; ours has no padding.
    masked = scores.masked_fill(~real[..., None], -torch.inf)
    loss = sum(F.cross_entropy(masked[..., end], ends[:, end]) for end in (0, 1)) / 2
    agree(task, batch, ours, theirs, scores[real], loss)


@modes
@families
def test_answers_in_rows_of_equal_length(family, mode, both, agree, tmp_path):
    theirs, ours = both(family, "QuestionAnswering", mode)
    task = ours.task
    rng = np.random.default_rng(4)
    words = text_of(rng, 12).split()
    items = [QuestionItem("the fox ran", " ".join(words), impossible=True)]
    for _ in range(3):
        mixed = ["the", *rng.permutation(words[1:])]
        place = len(" ".join(mixed[:3])) + 1
        items.append(QuestionItem("the fox ran", " ".join(mixed), (AnswerSpan(mixed[3], place),)))
    batch, clean, _ = examples_of(task, items, family)
    assert clean.real.all()
    _, ends = ends_by_peer(tmp_path / "peer", items, ROOM, 9)
    expected = theirs(
        **inputs_of(clean, batch, family), start_positions=ends[:, 0], end_positions=ends[:, 1]
    )
    scores = torch.stack([expected.start_logits, expected.end_logits], dim=-1)
    agree(task, batch, ours, theirs, scores.flatten(0, 1), expected.loss)


def test_negative_control_a_label_of_another_window_would_be_seen(both, agree):
    theirs, ours = both("bert", "SequenceClassification", "eval", LABELS["one"])
    task = ours.task
    items = [TextItem("the fox", "bad"), TextItem("the lazy dog slept", "good")]
    batch, clean, _ = examples_of(task, items, "bert")
    expected = theirs(**inputs_of(clean, batch, "bert"), labels=torch.tensor([1, 0]))
    with pytest.raises(AssertionError):
        agree(task, batch, ours, theirs, expected.logits, expected.loss)
