"""Every setting of fine-tuning is checked before the first step: each is given wrong values."""

import dataclasses
import math
import types
import typing
from pathlib import Path

import pytest

import clozeworks as cw
from clozeworks import registry
from clozeworks.engine.trainer import Trainer
from clozeworks.errors import ClozeworksError
from clozeworks.jobs.finetune.job import finetune
from clozeworks.jobs.finetune.recipe import FinetuneRecipe, read_finetune_recipe
from clozeworks.tasks.task import task_classes
from clozeworks.text.training.train import train_from_iterator

ROWS = [f"the {('cat', 'dog')[n % 2]} is {('bad', 'good')[n % 3 == 0]} {n % 7}" for n in range(24)]
NONSENSE = "qqxq"
# Any text is right here: a separator of labels, a name, a prefix, a template.
FREE_TEXTS = {
    "logging.project",
    "run", "data.label_separator", "task.labels", "task.problem", "task.prefix", "task.between",
    "task.chat_template", "augment.words@augment.kind=insert",
}  # fmt: skip
# Strings that are wrong for a reason of their own, found by other tests.
SETTLED = {"task.labels", "task.problem", "task.standardization"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("settings")
    tokenizer = train_from_iterator([*ROWS, "yes no"] * 3, kind="wordpiece", size=150)
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    cw.new("bert-tiny", tokenizer, max_position_embeddings=40, **sizes).save(folder / "model")
    labels = [("no", "yes")["good" in row] for row in ROWS]
    pairs = list(zip(ROWS, labels, strict=True))
    (folder / "classify.csv").write_text(
        "\n".join(["text,label", *(f"{row},{label}" for row, label in pairs)]) + "\n"
    )
    (folder / "tag.bio").write_text(
        "\n\n".join("\n".join(f"{word} O" for word in row.split()[:-1]) + "\nx B-A" for row in ROWS)
        + "\n"
    )
    return folder


def settings(cls, path=""):
    """Every setting below a class: its path, and what it may be; tables of a slot by their kind."""
    hints = typing.get_type_hints(cls, include_extras=True)
    for field in dataclasses.fields(cls):
        where, hint = f"{path}{field.name}", hints[field.name]
        yield where, hint
        for inner in tables(hint):
            if inner.__dict__.get("is_slot"):
                for kind, filled in registry.specs(inner).items():
                    for below, deeper in settings(filled, f"{where}."):
                        yield f"{below}@{where}.kind={kind}", deeper
            else:
                yield from settings(inner, f"{where}.")


def tables(hint):
    if typing.get_origin(hint) is typing.Annotated:
        return tables(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return [table for member in typing.get_args(hint) for table in tables(member)]
    return [hint] if dataclasses.is_dataclass(hint) or hasattr(hint, "is_slot") else []


def wrong_values(path, hint):
    """Values that a setting of a type cannot have."""
    if typing.get_origin(hint) is typing.Annotated:
        return wrong_values(path, typing.get_args(hint)[0])
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        members = [each for each in typing.get_args(hint) if each is not type(None)]
        return [] if len(members) > 1 else wrong_values(path, members[0])
    always = [math.nan, [[]], {"q": {"q": []}}]
    if hint is str:
        return [*always, 7, *([] if path in FREE_TEXTS else [NONSENSE])]
    if hint is bool:
        return [*always, 7, NONSENSE, []]
    if hint in (int, float):
        numbers = [-3, NONSENSE, [], True, -math.inf, math.inf, math.nan]
        return numbers if hint is float else [*numbers, 2.5, -(2**70)]
    if typing.get_origin(hint) is tuple:
        return [7, NONSENSE, {"q": 1}, [[]], *([] if path in FREE_TEXTS else [[NONSENSE]])]
    if typing.get_origin(hint) is dict:
        return [7, NONSENSE, [], {NONSENSE: NONSENSE}]
    if typing.get_origin(hint) is typing.Literal:
        return [NONSENSE, 7, [], {}]
    return [7, NONSENSE, [], {NONSENSE: 1}, {"kind": []}, {"kind": {}}]


def cases():
    for path, hint in settings(FinetuneRecipe):
        if path.startswith("task"):
            continue
        for value in wrong_values(path, hint):
            yield "classify", path, value
    for kind, task in task_classes().items():
        if kind in ("classify", "tag"):
            for path, hint in settings(task, "task."):
                for value in wrong_values(path, hint):
                    yield kind, path, value
    for value in (7, NONSENSE, [], {"kind": []}, {"kind": NONSENSE}, {"kind": None}, {}):
        yield "classify", "task", value


class Reached(AssertionError):  # noqa: N818
    """Training began."""


def put(recipe, path, value):
    path, _, kind = path.partition("@")
    table, changes = recipe, [*([kind] if kind else []), None]
    for change in changes:
        name, given = (path, value) if change is None else change.split("=")
        table = recipe
        *above, last = name.split(".")
        for part in above:
            table = table.setdefault(part, {})
        table[last] = given


# Values of the right type that do not go with the model, the data or each other.
UNFIT = [
    ("task.metric", "accurcy", "task.metric is 'accurcy'; known: accuracy, "),
    ("task.metric", "spearman", "task.metric is 'spearman'; known: accuracy, "),
    ("task.windows.length", 41, "task.windows.length is 41; this model takes at most 40 tokens"),
    ("task.windows.overlap", 38, "task.windows.overlap is 38; a window has room for 38 tokens"),
    (
        "task.windows",
        {"keep": "both", "keep_first": 39},
        "task.windows.keep_first is 39; a window has",
    ),
    ("task.windows.keep_first", 3, "task.windows.keep_first is 3; `keep` is 'all'"),
    ("task.label_loss.weights", {"maybe": 3}, "A label of task.label_loss.weights is 'maybe'"),
    ("task.labels", ["yes", "no"], "task.labels is ['yes', 'no']; labels come from the data"),
    ("lora.rank", 16, "lora.rank is 16; encoder.layers.0.attention.part.query is 16"),
    ("lora.targets", ["queri"], "A target of lora.targets is 'queri'; known: "),
    ("lora.alpha", math.inf, "lora.alpha is inf; it must be above 0 and finite."),
    ("training.freezing.layers", 3, "training.freezing.layers is 3"),
    ("training.compile", True, "training.compile is true; on a CPU"),
    ("training.schedule.warmup_steps", 999, "schedule.warmup_steps is 999"),
    ("training.epochs", 10**400, "training.epochs is a number of more than 100 digits; it must"),
    (
        "scheduled_sampling",
        {"teacher_forcing": {"kind": "linear_teacher_forcing", "fall": 0.1}},
        "scheduled_sampling is set; `task.kind`",
    ),
    ("head", "refuse", "head is 'refuse'; the labels are no, yes"),
    ("model", "no-such-folder-here", "no-such-folder-here"),
    ("corpus", "x", "A setting is 'corpus'; known: adversarial"),
    ("epochs", 3, "epochs is not known; did you mean 'training.epochs'?"),
]


@pytest.mark.parametrize(("path", "value", "sentence"), UNFIT, ids=[path for path, *_ in UNFIT])
def test_unfit_values_are_found_before_the_first_step(
    folder, tmp_path, monkeypatch, path, value, sentence
):
    def reached(self):
        raise Reached

    monkeypatch.setattr(Trainer, "run", reached)
    recipe = {
        "run": str(tmp_path / "run"),
        "model": str(folder / "model"),
        "task": {"kind": "classify"},
        "data": {"train": [str(folder / "classify.csv")], "dev_fraction": 0.25},
    }
    put(recipe, path, value)
    with pytest.raises(ClozeworksError) as error:
        finetune(recipe)
    assert str(error.value).startswith(sentence)
    assert str(error.value).endswith((".", "?"))


def test_every_wrong_value_gets_a_sentence_before_the_first_step(folder, tmp_path, monkeypatch):
    def reached(self):
        raise Reached

    monkeypatch.setattr(Trainer, "run", reached)
    files = {"classify": "classify.csv", "tag": "tag.bio"}
    accepted, broken, count = [], [], 0
    for kind, path, value in cases():
        count += 1
        recipe = {
            "run": str(tmp_path / "run"),
            "model": str(folder / "model"),
            "task": {"kind": kind},
            "data": {"train": [str(folder / files[kind])], "dev_fraction": 0.25},
        }
        put(recipe, path, value)
        try:
            finetune(read_finetune_recipe(recipe))
        except ClozeworksError as error:
            sentence = str(error)
            if "Recipe" in sentence or "\n" in sentence or not sentence.endswith((".", "?")):
                broken.append((path, value, sentence))
        except Reached:
            accepted.append((path, value))
        except Exception as error:
            broken.append((path, value, repr(error)))
    assert count > 800
    assert not broken
    assert not accepted
    assert not Path(tmp_path / "run" / "seed-0" / "snapshots").exists()
