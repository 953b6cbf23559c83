"""Chooses among labels by how likely each is as what follows a text; nothing is trained.

Paper: Brown et al. 2020 (GPT-3), with its three ways to compare labels of different lengths.
The idea: a template makes a prompt of the text, and every label is a continuation of it.
- "none": the log probability of the label.
- "token": the same, divided by its number of tokens; long labels lose nothing by being long.
- "unconditional": the same, less what it is where the text is left out; labels that are likely
  anyway gain nothing by it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from clozeworks.errors import InputError, SettingError, UnknownName
from clozeworks.inference.likelihood import Scored
from clozeworks.text.valid import place_of

Normalize = Literal["token", "none", "unconditional"]
# Prompts, what follows each, and where each came from: to how likely that is.
Score = Callable[[Sequence[str], Sequence[str], Sequence[str]], list[Scored]]
TEMPLATE = "{text}\nAnswer: {label}"
TEXT, LABEL = "{text}", "{label}"


@dataclass(frozen=True)
class Chosen:
    """The label of a text.

    Attributes:
        label: The label with the highest score.
        scores: What labels were compared by, in nats, the highest first.
        unread: Tokens of the prompt that the model had no room for, the first ones.
    """

    label: str
    scores: Mapping[str, float]
    unread: int = 0

    @property
    def lead(self) -> float:
        """How far the label is before the next one."""
        first, second, *_ = self.scores.values()
        return first - second


def choose(
    score: Score,
    texts: Sequence[str],
    labels: Sequence[str],
    *,
    template: str = TEMPLATE,
    normalize: Normalize = "token",
    before: Sequence[str] | None = None,
    places: Sequence[str] | None = None,
) -> list[Chosen]:
    """The likeliest label of each text.

    Args:
        score: Says how likely continuations are.
        texts: The texts.
        labels: What may be chosen, at least two, as words that can follow.
        template: How text and label stand together.
        normalize: How labels of different lengths are compared.
        before: What stands before each prompt, such as demonstrations.
        places: Where each text came from, for messages.

    Raises:
        InputError: Labels are too few, empty or repeated; or not every text has what stands before.
        SettingError: The template lacks a place for the text or for the label.
    """
    check_labels(labels)
    check_template(template)
    if normalize not in get_args(Normalize):
        raise UnknownName("normalize", normalize, get_args(Normalize))
    without = [parts(template, "", label) for label in labels]
    if normalize == "unconditional" and not without[0][0].strip():
        raise SettingError(
            f"template is {template!r}; to know how likely a label is without the text, a word "
            f"must stand before it, as in {TEMPLATE!r}; add one, or compare by token."
        )
    shown = [""] * len(texts) if before is None else before
    if len(shown) != len(texts):
        raise InputError(
            f"before has {len(shown):,} texts and texts has {len(texts):,}; each text needs one; "
            f"give lists of equal length."
        )
    pairs = [parts(template, text, label) for text in texts for label in labels]
    owners = [number for number in range(len(texts)) for _ in labels]
    found = score(
        [shown[owner] + prompt for owner, (prompt, _) in zip(owners, pairs, strict=True)],
        [continuation for _, continuation in pairs],
        [place_of(owner, places) for owner in owners],
    )
    usual = [0.0] * len(labels)
    if normalize == "unconditional":
        prompts, continuations = zip(*without, strict=True)
        named = [f"the label {label!r}" for label in labels]
        usual = [scored.total for scored in score(prompts, continuations, named)]
    chosen = []
    for number in range(len(texts)):
        own = found[number * len(labels) : (number + 1) * len(labels)]
        values = [
            scored.total / scored.count if normalize == "token" else scored.total - less
            for scored, less in zip(own, usual, strict=True)
        ]
        ranked = sorted(zip(labels, values, strict=True), key=lambda pair: -pair[1])
        unread = max(scored.unread for scored in own)
        chosen.append(Chosen(ranked[0][0], dict(ranked), unread))
    return chosen


def parts(template: str, text: str, label: str) -> tuple[str, str]:
    """The prompt of a text, and the label with what stands behind it in the template."""
    before, _, behind = template.partition(LABEL)
    # Trap: a text may hold braces of its own; so nothing is formatted, and the text comes last.
    return before.replace(TEXT, text, 1), label + behind


def check_template(template: str) -> None:
    """Insists on one place for the text, and one for the label behind it."""
    if template.count(TEXT) != 1 or template.count(LABEL) != 1:
        raise SettingError(
            f"template is {template!r}; {TEXT} and {LABEL} must each stand in it once; write, for "
            f"example, {TEMPLATE!r}."
        )
    if template.index(TEXT) > template.index(LABEL):
        raise SettingError(
            f"template is {template!r}; {LABEL} must stand behind {TEXT}, because it is asked as "
            f"what follows; change their order."
        )


def check_labels(labels: Sequence[str]) -> None:
    """Insists on two labels or more, each with a word and there once."""
    if isinstance(labels, str) or len(labels) < 2:
        raise InputError(f"labels is {labels!r}; a choice needs two at least; give a list of them.")
    for label in labels:
        if not isinstance(label, str) or not label.strip():
            raise InputError(f"a label is {label!r}; it must be a str with a word; mend it.")
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if list(labels).count(label) > 1)
        raise InputError(f"the label {twice!r} is there twice; each counts once; drop one.")
