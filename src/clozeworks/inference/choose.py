"""Choice among labels: by their likelihood as continuations, or by a head trained to choose.

Paper: Brown et al. 2020 (GPT-3), with its three ways to compare labels of different lengths.
The idea: a template makes a prompt of the text, and every label is a continuation of it.
- "none": the log probability of the label.
- "token": the same, divided by its number of tokens; long labels lose nothing by being long.
- "unconditional": the same, minus what it is without the text; labels that are likely anyway gain
  nothing by it.
A model with a head that was trained to choose (`…ForMultipleChoice`) scores text and label as a
pair instead, as Radford et al. 2018 and Devlin et al. 2019 do.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from clozeworks.errors import InputError, SettingError, UnknownName
from clozeworks.inference.likelihood import Scored
from clozeworks.text.valid import location_of

Normalize = Literal["token", "none", "unconditional"]
# From prompts, their continuations and where each came from to how likely the continuations are.
Score = Callable[[Sequence[str], Sequence[str], Sequence[str]], list[Scored]]
TEMPLATE = "{text}\nAnswer: {label}"
TEXT, LABEL = "{text}", "{label}"


@dataclass(frozen=True)
class Chosen:
    """The label of a text."""

    label: str
    scores: Mapping[str, float]
    """What labels were compared by, in nats, the highest first."""
    unread: int = 0
    """How many of the first tokens of the prompt the model had no room for."""

    @property
    def lead(self) -> float:
        """How far the score of the label is above the next one."""
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
    source_locations: Sequence[str] | None = None,
) -> list[Chosen]:
    """Finds the likeliest label of each text.

    Args:
        score: Scores continuations.
        texts: The texts.
        labels: The labels to choose from, at least two, as words that can follow.
        template: How a text and a label are combined.
        normalize: How labels of different lengths are compared.
        before: Text put before each prompt, such as demonstrations.
        source_locations: Where each text came from, for messages.

    Raises:
        InputError: If there are fewer than two labels, if one is empty or repeated, or if `before`
            is not as long as `texts`.
        SettingError: If the template does not hold {text} and {label} once, in this order.
    """
    check_labels(labels)
    check_template(template)
    if normalize not in get_args(Normalize):
        raise UnknownName("normalize", normalize, get_args(Normalize))
    without = [parts(template, "", label) for label in labels]
    if normalize == "unconditional" and not without[0][0].strip():
        raise SettingError(
            "template",
            template,
            f"to score a label without the text, a word must come before it, as in {TEMPLATE!r}",
            "add one, or compare by token",
        )
    shown = [""] * len(texts) if before is None else before
    if len(shown) != len(texts):
        raise InputError(
            f"before has {len(shown):,} texts and texts has {len(texts):,}; each text needs one; "
            f"give lists of equal length."
        )
    pairs = [parts(template, text, label) for text in texts for label in labels]
    owners = [number for number in range(len(texts)) for _ in labels]
    scores = score(
        [shown[owner] + prompt for owner, (prompt, _) in zip(owners, pairs, strict=True)],
        [continuation for _, continuation in pairs],
        [location_of(owner, source_locations) for owner in owners],
    )
    unconditional = [0.0] * len(labels)
    if normalize == "unconditional":
        prompts, continuations = zip(*without, strict=True)
        named = [f"the label {label!r}" for label in labels]
        unconditional = [scored.total for scored in score(prompts, continuations, named)]
    chosen = []
    for number in range(len(texts)):
        several = scores[number * len(labels) : (number + 1) * len(labels)]
        values = [
            scored.total / scored.count if normalize == "token" else scored.total - less
            for scored, less in zip(several, unconditional, strict=True)
        ]
        ranked = sorted(zip(labels, values, strict=True), key=lambda pair: -pair[1])
        unread = max(scored.unread for scored in several)
        chosen.append(Chosen(ranked[0][0], dict(ranked), unread))
    return chosen


def choose_by_head(
    logits: Callable[[list[tuple[str, str]]], Sequence[float]],
    texts: Sequence[str],
    labels: Sequence[str],
) -> list[Chosen]:
    """Finds the label of each text by a head that was trained to choose.

    Args:
        logits: Makes the head's logits of pairs of a text and a label.
        texts: The texts.
        labels: The labels to choose from, at least two.

    Raises:
        InputError: If there are fewer than two labels, or if one is empty or repeated.
    """
    check_labels(labels)
    scores = np.asarray(logits([(text, label) for text in texts for label in labels]), np.float64)
    chosen = []
    for row in scores.reshape(len(texts), len(labels)):
        values = row - np.logaddexp.reduce(row)
        ranked = sorted(zip(labels, values.tolist(), strict=True), key=lambda pair: -pair[1])
        chosen.append(Chosen(ranked[0][0], dict(ranked)))
    return chosen


def parts(template: str, text: str, label: str) -> tuple[str, str]:
    """The prompt of a text, and the label with what follows it in the template."""
    before, _, after = template.partition(LABEL)
    # Trap: a text may hold braces of its own; so nothing is formatted, and the text comes last.
    return before.replace(TEXT, text, 1), label + after


def check_template(template: str) -> None:
    """Checks that a template holds the text once and, after it, the label once.

    Raises:
        SettingError: If it does not.
    """
    if template.count(TEXT) != 1 or template.count(LABEL) != 1:
        rule = f"it must contain {TEXT} and {LABEL} once each"
        raise SettingError("template", template, rule, f"write, for example, {TEMPLATE!r}")
    if template.index(TEXT) > template.index(LABEL):
        rule = f"{LABEL} must come after {TEXT}, because it is scored as a continuation"
        raise SettingError("template", template, rule, "change their order")


def check_labels(labels: Sequence[str]) -> None:
    """Checks that there are at least two labels, none of them empty or repeated.

    Raises:
        InputError: If that is not so.
    """
    if isinstance(labels, str) or len(labels) < 2:
        raise InputError(f"labels is {labels!r}; it must be a list of at least two labels.")
    for label in labels:
        if not isinstance(label, str) or not label.strip():
            raise InputError(f"a label is {label!r}; it must be a str with at least one word.")
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if list(labels).count(label) > 1)
        raise InputError(f"the label {twice!r} is listed twice; remove one.")
