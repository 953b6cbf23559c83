"""What every task must keep, whoever wrote it: run over the files of the folder.

The cases are the examples on the cards: what stands there is built, read, trained and asked.
"""

import dataclasses
import importlib
import inspect
import json
import re
import tomllib

import numpy as np
import pytest
import torch

import clozeworks as cw
from clozeworks import config, registry
from clozeworks.data.examples.loader import Loader
from clozeworks.engine.stages import MicroBatcher
from clozeworks.errors import InputError
from clozeworks.jobs.finetune.examples import TaskExamples
from clozeworks.objectives.batch import Vocabularies
from clozeworks.tasks.answer import Answer
from clozeworks.tasks.classify import Classify, TextItem
from clozeworks.tasks.compare import Compare, PairItem
from clozeworks.tasks.spans.questions import AnswerSpan, QuestionItem
from clozeworks.tasks.spans.windows import Windows, by_item
from clozeworks.tasks.tag import Tag
from clozeworks.tasks.tagging.items import WordsItem
from clozeworks.tasks.task import Task
from clozeworks.tasks.text_to_text.items import SourceItem
from clozeworks.tasks.text_to_text.task import TextToText, Writing
from clozeworks.text.tokenizer.styles import GPT2_STYLE, T5_STYLE
from clozeworks.text.training.train import train_from_iterator

HEADINGS = ("Paper:", "Data:", "Hides and asks:", "Loss:", "Relations:", "Example:")
SENTENCE = "the fox ran from London to New York and the lazy dog slept 我 爱 学 习 。 é 🙂"
WORDS = SENTENCE.split()
TOKENIZER = train_from_iterator([SENTENCE] * 5, kind="wordpiece", size=120)
# Models that write give every character back, and know where a text ends.
TWO_TOWERS = train_from_iterator(
    ["summarize: " + SENTENCE] * 5, kind="unigram", size=200, style=T5_STYLE
)
ONE_TOWER = train_from_iterator([SENTENCE] * 5, kind="bpe", size=320, style=GPT2_STYLE)
ROOM = 48


def files():
    """Every file of the folder that defines a task, with what it defines."""
    found = {}
    for name, path in registry.files("clozeworks.tasks").items():
        module = importlib.import_module(path)
        own = [
            cls
            for _, cls in inspect.getmembers(module, inspect.isclass)
            if issubclass(cls, Task) and cls.__module__ == path and "is_slot" not in vars(cls)
        ]
        if own:
            found[name] = (module, own)
    return found


FILES = files()


def examples(module):
    """The tasks a card shows: Python, or a recipe in braces."""
    text = inspect.getdoc(module) or ""
    shown = text.partition("Example:")[2].partition("Shapes:")[0]
    names = {cls.__name__: cls for cls in registry.specs(Task).values()}
    for item in (re.sub(r"\s+", " ", each) for each in re.findall(r"`([^`]+)`", shown)):
        if item.startswith("{"):
            yield config.read(Task, tomllib.loads(f"task = {item}")["task"])
        else:
            yield eval(item, names)


CASES = [
    pytest.param(task, id=f"{name}-{number}")
    for name, (module, _) in FILES.items()
    for number, task in enumerate(examples(module))
] + [
    pytest.param(Classify(labels=("a", "b", "c"), problem="several"), id="several labels"),
    pytest.param(Classify(labels=("a", "b"), pooling="mean"), id="mean pooling"),
    pytest.param(Classify(labels=("a", "b"), pooling="first"), id="first pooling"),
    pytest.param(Classify(labels=("a", "b"), pooling="max"), id="max pooling"),
    pytest.param(Classify(labels=("a", "b"), pooling="attention"), id="attention pooling"),
    pytest.param(Compare(labels=("a", "b"), pooling="attention"), id="pairs, attention"),
    pytest.param(Tag(labels=("NOUN", "VERB", "X")), id="parts of speech"),
    pytest.param(Tag(labels=("O", "B-A", "I-A", "E-A", "S-A")), id="BIOES"),
    pytest.param(Tag(labels=("B-A", "M-A", "E-A", "S-A", "O")), id="BMES"),
    pytest.param(
        TextToText(writing=Writing(max_new_tokens=4, num_beams=3)), id="text to text, beams"
    ),
]
# A task that writes has no scores of windows; what holds instead is in test_writing_tasks.py.
SCORING = [case for case in CASES if not isinstance(case.values[0], TextToText)]


def text_of(rng, count):
    return " ".join(WORDS[number] for number in rng.integers(len(WORDS), size=count))


def labels_for(task, number):
    if isinstance(task, Classify) and task.problem == "number":
        return number / 7
    if isinstance(task, Classify) and task.problem == "several":
        return tuple(label for place, label in enumerate(task.labels) if number >> place & 1)
    return task.labels[number % len(task.labels)]


def tags_for(task, rng, count):
    """Tags in which each allowed move may occur."""
    path = [int(rng.choice(np.flatnonzero(task.moves.start)))]
    while len(path) < count:
        path.append(int(rng.choice(np.flatnonzero(task.moves.move[path[-1]]))))
    while not task.moves.end[path[-1]]:
        allowed = task.moves.end & (task.moves.move[path[-2]] if count > 1 else task.moves.start)
        if not allowed.any():
            return tags_for(task, rng, count)
        path[-1] = int(rng.choice(np.flatnonzero(allowed)))
    return [task.labels[number] for number in path]


def items_for(task, count=7, seed=0, longest=100):
    """Labelled items of many lengths, some longer than a window."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        size = int(rng.integers(1, 12)) if number % 3 else int(rng.integers(60, longest))
        text = text_of(rng, size)
        if isinstance(task, TextToText):
            source = text if task.between is None else text_of(rng, 1 + number % 4)
            found.append(SourceItem(source, text_of(rng, 1 + number % 3)))
        elif isinstance(task, Compare):
            found.append(PairItem(text, text_of(rng, 4), labels_for(task, number)))
        elif isinstance(task, Classify):
            found.append(TextItem(text, labels_for(task, number)))
        elif isinstance(task, Tag):
            words = text.split()
            found.append(WordsItem.of_words(words, tags_for(task, rng, len(words))))
        elif isinstance(task, Answer):
            words = text.split()
            first = int(rng.integers(len(words)))
            said = " ".join(words[first : first + 3])
            begin = len(" ".join(words[:first])) + bool(first)
            impossible = task.threshold is not None and number % 4 == 3
            answers = () if impossible else (AnswerSpan(said, begin),)
            found.append(QuestionItem("the fox ran", text, answers, impossible))
        else:
            pytest.fail(f"say how items of {task.name} are made")
    return found


def tokenizer_for(task):
    if not isinstance(task, TextToText):
        return TOKENIZER
    return TWO_TOWERS if task.between is None else ONE_TOWER


def writer(task):
    """A model with two towers, or with one."""
    heads = ["decoder", "vocabulary"] if task.between is None else ["vocabulary"]
    size = "t5-v1_1-small" if task.between is None else "gpt2"
    changes = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_heads": 2, "num_layers": 2}
    changes |= {"num_decoder_layers": 2, "dropout_rate": 0.0}
    if task.between is not None:
        changes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": ROOM}
        changes |= {f"{place}_pdrop": 0.0 for place in ("resid", "embd", "attn")}
        changes["tie_word_embeddings"] = False
    return cw.new(size, tokenizer_for(task), heads=heads, **changes)


def encoder(dtype=torch.float64):
    model = cw.new(
        "bert-tiny",
        TOKENIZER,
        hidden_size=16,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=ROOM,
        initializer_range=0.3,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model.model.to(dtype)
    return model


def model_for(task, dtype=torch.float64):
    start = writer(task) if isinstance(task, TextToText) else encoder(dtype)
    start.model.to(dtype)
    model = start.for_task(task, seed=3)
    model.model.to(dtype)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():  # heads begin near 0, where every answer is alike
        for name, parameter in model.model.named_parameters():
            if "heads." in name:
                values = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.copy_(values)
    return model


def same(left, right, exact=False):
    """Whether two answers are equal, numbers up to rounding."""
    if isinstance(left, float) and isinstance(right, float):
        return left == right if exact else left == pytest.approx(right, abs=1e-6)
    if dataclasses.is_dataclass(left):
        return type(left) is type(right) and all(
            same(getattr(left, f.name), getattr(right, f.name), exact)
            for f in dataclasses.fields(left)
        )
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[k], right[k], exact) for k in left)
    if isinstance(left, tuple | list):
        return len(left) == len(right) and all(map(same, left, right, [exact] * len(left)))
    return left == right


def test_every_published_task_is_here():
    assert {"classify", "compare", "tag", "answer"} <= FILES.keys()


@pytest.mark.parametrize("name", FILES)
def test_the_card_says_everything_and_shows_the_task(name):
    module, own = FILES[name]
    text = inspect.getdoc(module) or ""
    assert all(f"\n{heading}" in text for heading in HEADINGS)
    assert {type(task) for task in examples(module)} & set(own)


@pytest.mark.parametrize("task", CASES)
def test_json_and_back(task):
    written = json.loads(json.dumps(config.plain(task)))
    assert config.read(Task, written) == task


@pytest.mark.parametrize("task", CASES)
def test_neighbours_and_budgets_change_nothing(task):
    model, items = model_for(task), items_for(task)
    together = model.predict(items, task)
    assert all(map(same, together, [model.predict([item], task)[0] for item in items]))
    assert all(map(same, together, model.predict(items, task, batch_tokens=1)))
    assert all(map(same, together[::-1], model.predict(items[::-1], task)))


@pytest.mark.parametrize("task", CASES)
def test_saved_and_loaded_it_answers_the_same(task, tmp_path):
    model, items = model_for(task, torch.float32), items_for(task)
    model.save(tmp_path / "model")
    again = cw.load(tmp_path / "model")
    assert again.task == task
    assert all(
        same(a, b, exact=True)
        for a, b in zip(model.predict(items, task), again.predict(items), strict=True)
    )
    again.save(tmp_path / "twice")
    for file in ("config.json", "model.safetensors", "clozeworks.json"):
        assert (tmp_path / "model" / file).read_bytes() == (tmp_path / "twice" / file).read_bytes()


def loader(task, items, *, ranks=1, rank=0, workers=0, piece=10_000):
    most = None if tokenizer_for(task) is TWO_TOWERS else ROOM
    examples = TaskExamples(task, items, tokenizer_for(task), max_length=most)
    cutter = MicroBatcher(task, 0, Vocabularies.of(tokenizer_for(task)), piece, 1)
    return Loader(
        examples, cutter, seed=1, batch_size=5, rank=rank, ranks=ranks, workers=workers, ahead=2
    )


def arrays(pieces):
    joined = {name: np.concatenate([getattr(p, name) for p in pieces]) for name in ("ids", "types")}
    for name in pieces[0].targets:
        for key in pieces[0].targets[name]:
            if key != "positions":  # counted within the piece
                joined[key] = np.concatenate([piece.targets[name][key] for piece in pieces])
    return joined


@pytest.mark.parametrize("task", CASES)
def test_ranks_workers_and_pieces_see_the_same_examples(task):
    items = items_for(task, 9)
    for step in (0, 3):
        whole = arrays(loader(task, items).batch(step))
        shared = [p for rank in (0, 1) for p in loader(task, items, rank=rank, ranks=2).batch(step)]
        ahead = next(loader(task, items, workers=2).batches(step))
        for other in (shared, ahead, loader(task, items, piece=30).batch(step)):
            found = arrays(other)
            assert all(np.array_equal(whole[key], found[key]) for key in whole)


def gradient(task, model, pieces):
    network = model.model.train()
    network.zero_grad()
    counts = {}
    for piece in pieces:
        for name, count in piece.counts().items():
            counts[name] = counts.get(name, 0) + count
    total = 0.0
    for piece in pieces:
        value = task.loss(network, piece.tensors()).value(counts)
        value.backward()
        total += value.detach().item()
    return total, {
        name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None
    }


@pytest.mark.parametrize("task", CASES)
def test_accumulation_equals_one_big_batch(task):
    model, items = model_for(task), items_for(task, 9)
    big = gradient(task, model, loader(task, items).batch(0))
    small = gradient(task, model, loader(task, items, piece=20).batch(0))
    assert len(loader(task, items, piece=20).batch(0)) > 1
    assert big[0] == pytest.approx(small[0], abs=1e-9)
    assert big[1].keys() == small[1].keys()
    assert any(name.startswith("heads.") for name in big[1])
    for name, values in big[1].items():
        torch.testing.assert_close(values, small[1][name], rtol=0, atol=1e-9)


def ideal(task, item, windows):
    """Scores that say exactly what is right."""
    found = []
    for window, target in zip(windows, task.targets(item, windows), strict=True):
        if isinstance(task, Answer):
            rows = np.zeros((len(window), 2), np.float32)
            rows[target.label[0], 0] = rows[target.label[1], 1] = 20
            if not item.impossible and target.label[0] == 0:
                rows[:] = 0  # the answer is in another window
        elif isinstance(task, Tag):
            rows = np.zeros((len(window.wanted), len(task.labels)), np.float32)
            rows[np.arange(len(rows)), target.tokens[window.wanted]] = 20
        elif task.problem == "number":
            rows = np.array([target.label])
        elif task.problem == "several":
            rows = np.where(target.label > 0, 20.0, -20.0)
        else:
            rows = 20.0 * (np.arange(len(task.labels)) == target.label)
        found.append(np.asarray(rows, np.float32))
    return found


def said(task, answer):
    if isinstance(task, Answer):
        return answer.text, answer.begin
    return answer.tags if isinstance(task, Tag) else answer.label


def right(task, item):
    if isinstance(task, Answer):
        return (item.answers[0].text, item.answers[0].begin) if item.answers else ("", None)
    if isinstance(task, Tag):
        return item.tags
    return pytest.approx(item.label, abs=1e-6) if isinstance(item.label, float) else item.label


@pytest.mark.parametrize("windows", [{}, {"length": 24, "step": 5}, {"length": 30, "overlap": 11}])
@pytest.mark.parametrize("task", SCORING)
def test_the_right_scores_decode_to_the_right_answer_wherever_windows_fall(task, windows):
    task = dataclasses.replace(task, windows=Windows(**windows))
    items = items_for(task, 12)
    groups = by_item(task.windows_of(items, TOKENIZER, ROOM))
    assert any(len(own) > 1 for own in groups)
    answers = [
        task.decode(item, own, ideal(task, item, own))
        for item, own in zip(items, groups, strict=True)
    ]
    assert [said(task, answer) for answer in answers] == [right(task, item) for item in items]
    measured = task.measure(items, answers)
    assert measured.value == pytest.approx(1.0, abs=1e-6) or measured.primary == "spearman"
    for item, answer in zip(items, answers, strict=True):
        for entity in getattr(answer, "entities", ()):
            assert item.text[entity.begin : entity.end] == entity.text
        for candidate in getattr(answer, "candidates", ()):
            assert item.context[candidate.begin : candidate.end] == candidate.text


@pytest.mark.parametrize("task", CASES)
def test_items_without_a_label_are_answered_but_not_trained_on(task):
    bare = {"label": None, "tags": None, "answers": (), "target": None}
    items = [
        dataclasses.replace(
            item,
            source_location="notes.csv, row 7",
            **{f.name: bare[f.name] for f in dataclasses.fields(item) if f.name in bare},
        )
        for item in items_for(task, 2)
    ]
    assert len(model_for(task).predict(items, task)) == 2
    with pytest.raises(InputError, match=r"^notes\.csv, row 7"):
        TaskExamples(task, items, tokenizer_for(task), max_length=None).take(0, np.array([0]))
