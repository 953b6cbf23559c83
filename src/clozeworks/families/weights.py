"""Weight names as one reversible table.

A rule pairs our name with the published one; holes in braces stand for a number (of a layer, of a
block in it) or for `weight` and `bias`. Import and export are the same table read in the two
directions.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

# What stands before the weights of a head that is not published.
OWN = "clozeworks."
_HOLES = {"layer": r"\d+", "block": r"\d+", "kind": "weight|bias"}


@dataclass(frozen=True)
class Rule:
    """Our name of a weight and the published one."""

    ours: str
    theirs: str
    second: bool = False
    """For a second spelling, which counts (and is written) only where nothing is tied."""


def rules(*pairs: tuple[str, str]) -> tuple[Rule, ...]:
    """A table of rules: (ours, theirs)."""
    return tuple(Rule(ours, theirs) for ours, theirs in pairs)


def layer_rules(layer: str, names: Mapping[str, str]) -> tuple[Rule, ...]:
    """Rules for the weights and biases of every encoder layer: our module names and theirs.

    `layer` stands before the published names, with its hole for the layer's number.
    """
    return rules(
        *(
            (f"encoder.layers.{{layer}}.{ours}.{{kind}}", f"{layer}.{theirs}.{{kind}}")
            for ours, theirs in names.items()
        )
    )


@dataclass(frozen=True)
class Form:
    """A published weight that is several of ours, or one of another shape.

    Its pieces go by the published name with `:piece` after it, and rules name those.
    """

    ending: str
    """How the published name ends."""
    pieces: tuple[str, ...]
    apart: Callable[[Tensor], Sequence[Tensor]]
    """The published weight to one tensor for each piece."""
    together: Callable[[Sequence[Tensor]], Tensor]
    """The way back."""


def stacked(ending: str, *pieces: str) -> Form:
    """A form whose pieces, all of one size, are stacked by rows."""

    def apart(tensor: Tensor) -> Sequence[Tensor]:
        if len(tensor) % len(pieces):
            raise ValueError(f"{len(tensor)} rows are not {len(pieces)} equal pieces")
        return tensor.chunk(len(pieces))

    return Form(ending, pieces, apart, lambda tensors: torch.cat(list(tensors)))


@dataclass(frozen=True)
class Names:
    """The names of one architecture.

    `body` rules describe the encoder; published checkpoints put `prefix` before them when there is
    a head beside the encoder, and leave it out when there is none. `head` rules stand as they are.
    Heads that no published architecture has go by a name of our own.
    """

    prefix: str
    body: Sequence[Rule]
    head: Sequence[Rule]
    ignored: Sequence[str] = ()
    """Body names of buffers that carry no information."""

    def ours(self, theirs: str) -> str | None:
        """Translates a published name; None if no rule knows it."""
        name = modern(theirs)
        if name.startswith(OWN):
            return "heads." + name.removeprefix(OWN)
        in_head = _translated(name, ((rule.theirs, rule.ours) for rule in self.head))
        in_body = ((rule.theirs, rule.ours) for rule in self.body)
        return in_head or _translated(name.removeprefix(self.prefix), in_body)

    def theirs(self, ours: str, *, prefixed: bool) -> str:
        """Translates one of our names; every weight of a family must have a rule."""
        # The head's table comes first: RoBERTa's classifier keeps its pooler beside the head.
        if in_head := _published(ours, self.head):
            return in_head
        # A part of ours may stand inside the published encoder: XLNet's query stream begins there.
        if in_body := _published(ours, self.body):
            return self.prefix + in_body if prefixed else in_body
        assert ours.startswith("heads."), f"no rule gives {ours} a published name"
        return OWN + ours.removeprefix("heads.")

    def second(self, ours: str) -> str | None:
        """The second published spelling of one of our names, if it has one."""
        return _published(ours, self.head, second=True)

    def is_ignored(self, theirs: str) -> bool:
        """Whether this is a known buffer without information."""
        name = theirs.removeprefix(self.prefix)
        return any(_pattern(ignored).fullmatch(name) for ignored in self.ignored)


def modern(name: str) -> str:
    """Spells the weights of a norm as they are spelled today."""
    # Compat: checkpoints converted from TensorFlow call them gamma and beta.
    if name.endswith(".gamma"):
        return name.removesuffix(".gamma") + ".weight"
    if name.endswith(".beta"):
        return name.removesuffix(".beta") + ".bias"
    return name


@cache
def _pattern(template: str) -> re.Pattern[str]:
    text = re.escape(template)
    for hole, values in _HOLES.items():
        text = text.replace(rf"\{{{hole}\}}", rf"(?P<{hole}>{values})")
    return re.compile(text)


def _published(ours: str, table: Sequence[Rule], *, second: bool = False) -> str | None:
    return _translated(ours, ((rule.ours, rule.theirs) for rule in table if rule.second == second))


def _translated(name: str, table: Iterable[tuple[str, str]]) -> str | None:
    for source, target in table:
        if match := _pattern(source).fullmatch(name):
            return target.format(**match.groupdict())
    return None
