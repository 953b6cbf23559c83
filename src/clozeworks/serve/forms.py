"""What somebody must know to ask a model who does not know it: a form for each of its abilities.

A form is made from what a task states about itself, so that a page has fields for every task, also
for one that is added. How predictions are shown is the task's own matter, too (`Task.shown`).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import TypeAdapter

from clozeworks.data.labelled.items import Item, Role
from clozeworks.serve.models import EMBED, FILL, GENERATE, RERANK, SCORE, SEARCH, ServedModel
from clozeworks.tasks.task import Task
from clozeworks.text.tokenizer.tokenizer import Tokenizer

# What is asked in another way than a task: with gaps, by writing, documents for a query.
_KINDS = {
    EMBED: "vectors",
    FILL: "gaps",
    GENERATE: "writing",
    RERANK: "ranking",
    SCORE: "likelihood",
    SEARCH: "search",
}
# Candidates that are shown of an answer.
_CANDIDATES = 10
# A sentence of each language that the page is written in.
_SENTENCES = {
    "en": "The city has an old bridge over the river.",
    "zh": "这座城市的河上有一座古老的桥。",
}
# The most pieces of a sentence that may be unknown to whoever reads its language.
_UNKNOWN = 0.2


@dataclass(frozen=True)
class AskedRole:
    """A field of an item that a model is asked about."""

    name: str
    is_text: bool
    """Whether it holds a text, and nothing else."""
    needed: bool
    """Whether there is no item without it."""
    role: Role


def asked_roles(item: type[Item]) -> list[AskedRole]:
    """The fields of an item that a model is asked about.

    Where rows come in two forms, such as texts and lists of words, no field is needed in all.
    """
    plain = item.asked_as((), has_lists=False)
    forms = list(dict.fromkeys((plain, item)))
    asked = [role for form in forms for role in form.roles if role.name in form.asked_roles]
    several = len(forms) > 1 or any(role.suffices for role in asked)
    return [
        AskedRole(
            name=role.name,
            is_text=role.name in item.text_names and role.holds == "text",
            needed=role.name in item.text_names and not several,
            role=role,
        )
        for role in asked
    ]


def form_of(ability: str, served: ServedModel) -> dict[str, Any]:
    """What a model takes for an ability, and how its answer is to be read.

    Args:
        ability: One of its abilities.
        served: The model, or an index.
    """
    kind = _KINDS.get(ability)
    if kind is None:
        return {"kind": "task", "path": f"/v1/{ability}", **_task_form(served.tasks[ability])}
    form: dict[str, Any] = {"kind": kind, "path": f"/v1/{ability}"}
    if served.index is not None:
        return {**form, "documents": len(served.index)}
    model = served.outline
    if model is None or not model.has_tokenizer:
        return form
    if ability == FILL:
        form |= {"mask": model.tokenizer.special.mask, "vocabulary": model.tokenizer.size}
    if ability == GENERATE:
        form["chat"] = model.tokenizer.has_chat_template
    return form


def _task_form(task: Task[Any, Any]) -> dict[str, Any]:
    item = task.item_type
    labels = task.head_labels
    return {
        "title": task.title,
        "summary": task.description.partition(". ")[0].removesuffix(".") + ".",
        "unit": item.asked_unit,
        "inputs": _inputs(item),
        "options": [
            {"name": name, "help": option.help, **TypeAdapter(option.type).json_schema()}
            for name, option in task.command_options.items()
        ],
        "labels": None if labels is None else list(labels),
    }


def _inputs(item: type[Item]) -> list[dict[str, Any]]:
    """The fields of the plain form of an item: texts, stretches of them, and whatever else."""
    plain = item.asked_as((), has_lists=False)
    examples = dict(zip(plain.text_names, plain.example, strict=False))
    found = []
    for role in plain.roles:
        if role.name not in plain.asked_roles:
            continue
        is_text = role.name in plain.text_names or role.holds == "text"
        found.append(
            {
                "name": role.name,
                "kind": "text" if is_text else "span" if role.is_span else "json",
                "required": is_text or role.required,
                "columns": list(role.known),
                "example": examples.get(role.name),
            }
        )
    return found


def shown_json(task: Task[Any, Any], item: Item, answer: Any, top: int | None) -> dict[str, Any]:
    """A prediction as people are shown it; marks count characters, not bytes."""
    shown = asdict(task.shown(item, answer, top or _CANDIDATES))
    return {**shown, "scores": [list(each) for each in shown["scores"]]}


def languages_read(tokenizer: Tokenizer) -> list[str]:
    """The languages of the page whose sentences are not mostly unknown to a tokenizer."""
    encoded = tokenizer.encode(list(_SENTENCES.values()), special=False)
    return [
        language
        for language, each in zip(_SENTENCES, encoded, strict=True)
        if _share(each.ids, tokenizer.unknown_id) <= _UNKNOWN
    ]


def _share(ids: Sequence[int], one: int | None) -> float:
    return sum(each == one for each in ids) / max(1, len(ids))
