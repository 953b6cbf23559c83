"""A model as a value: the tree of specs, printable, comparable, JSON both ways.

`check()` is the one place for rules that span parts.
"""

import json
from dataclasses import field
from typing import TYPE_CHECKING, Any

import torch

from clozeworks import config
from clozeworks.core.attention.attention import CrossAttention, SelfAttention
from clozeworks.core.attention.masks import Causal
from clozeworks.core.heads import HeadSpec
from clozeworks.core.heads.pooled import Pooler
from clozeworks.core.initialize import Undrawn
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layers.tower import Tower, sublayer_names
from clozeworks.errors import SettingError
from clozeworks.spec import spec

if TYPE_CHECKING:
    from clozeworks.core.model import Model

# Parts of a model that are not heads.
BESIDE = ("pooler", "decoder")


@spec
class Blueprint:
    """Everything that decides a model's shape, and nothing that belongs to a run."""

    width: int
    embeddings: Embeddings
    encoder: Tower
    pooler: Pooler | None = None
    heads: dict[str, HeadSpec] = field(default_factory=dict)
    decoder: Tower | None = None
    """What answers the text that the encoder read, token by token; it has the same embeddings."""

    def check(self) -> "Blueprint":
        """Returns itself, or says which rule is broken and where."""
        _at_least("width", self.width, 1)
        _at_least("embeddings.tokens", self.embeddings.tokens, 1)
        longest = self.max_length()
        if longest is not None and longest < 1:
            raise SettingError(
                f"embeddings.positions has room for {longest} tokens; it needs at least 1; "
                f"raise count or lower offset."
            )
        for name, tower in self.towers().items():
            self._check_tower(name, tower)
        for path, value in _dropouts(config.plain(self)):
            if not 0 <= value < 1:
                raise SettingError(f"{path} is {value}; it must be at least 0 and below 1.")
        for name, head in self.heads.items():
            if head.reads_pooler and self.pooler is None:
                raise SettingError(
                    f"heads.{name} reads the pooled text, but there is no pooler; add the pooler."
                )
        return self

    def towers(self) -> dict[str, Tower]:
        """The encoder, and the decoder if there is one."""
        return {"encoder": self.encoder} | ({"decoder": self.decoder} if self.decoder else {})

    @property
    def parts(self) -> frozenset[str]:
        """The parts it has beside its body: its heads, a pooler, a decoder."""
        beside = {name for name in BESIDE if getattr(self, name) is not None}
        return frozenset(self.heads) | beside

    @property
    def can_generate(self) -> bool:
        """Whether it can write a text from its beginning to its end.

        So it is if no token of the tower that is asked for words sees a later one.
        """
        tower = self.decoder or self.encoder
        parts = [sub.part for layer in tower.layers for sub in layer]
        looking = [part for part in parts if isinstance(part, SelfAttention)]
        return bool(looking) and all(isinstance(part.mask, Causal) for part in looking)

    def _check_tower(self, name: str, tower: Tower) -> None:
        for index, layer in enumerate(tower.layers):
            where = f"{name}.layers[{index}]"
            for role, sub in zip(sublayer_names(layer), layer, strict=True):
                if isinstance(sub.part, SelfAttention | CrossAttention):
                    self._check_heads(f"{where}.{role}", sub.part)
                if isinstance(sub.part, CrossAttention) and name == "encoder":
                    raise SettingError(
                        f"{where}.{role} looks at what an encoder made; an encoder cannot; put it "
                        f"into the decoder."
                    )
        depth = len(tower.layers)
        for step, index in enumerate(tower.running_order()):
            if not 0 <= index < depth:
                raise SettingError(
                    f"{name}.order[{step}] is {index}; it must be a layer from 0 to {depth - 1}."
                )

    def _check_heads(self, where: str, part: SelfAttention | CrossAttention) -> None:
        _at_least(f"{where}.heads", part.heads, 1)
        if isinstance(part, SelfAttention) and part.kv_heads is not None:
            _at_least(f"{where}.kv_heads", part.kv_heads, 1)
            if part.heads % part.kv_heads:
                raise SettingError(
                    f"{where}.heads is {part.heads} and kv_heads is {part.kv_heads}; the first "
                    f"must be divisible by the second; change one of them."
                )
        if part.head_width is None and self.width % part.heads:
            raise SettingError(
                f"{where}.heads is {part.heads} and width is {self.width}; the width must be "
                f"divisible by the heads; change one of them, or set head_width."
            )

    def max_length(self) -> int | None:
        """The longest text the model can take; None if there is no limit."""
        positions = self.embeddings.positions
        return positions.max_length() if positions else None

    def build(self, device: str = "cpu") -> "Model":
        """Makes the model, its weights not yet meaningful: initialise or load them.

        On the device `meta` it takes no memory and has shapes only.
        """
        from clozeworks.core.model import Model

        with torch.device(device), Undrawn():
            return Model(self.check())

    def count(self) -> int:
        """The number of parameters, tied ones once, without taking any memory for them."""
        return sum(parameter.numel() for parameter in self.build("meta").parameters())

    def to_json(self) -> str:
        """The blueprint as JSON text."""
        return json.dumps(config.plain(self), indent=2)

    @classmethod
    def from_json(cls, text: str) -> "Blueprint":
        """Reads what `to_json` wrote; complains about anything it does not know."""
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise SettingError(
                f"blueprint, line {error.lineno}: {error.msg}; it must be JSON."
            ) from error
        blueprint: Blueprint = config.read(cls, data)
        return blueprint.check()


def _at_least(where: str, value: int, least: int) -> None:
    if value < least:
        raise SettingError(f"{where} is {value}; it must be at least {least}.")


def _dropouts(data: Any, path: str = "") -> list[tuple[str, float]]:
    """Every field called dropout, with its path."""
    if isinstance(data, dict):
        pairs = [(f"{path}.{key}" if path else key, value) for key, value in data.items()]
    elif isinstance(data, list):
        pairs = [(f"{path}[{index}]", value) for index, value in enumerate(data)]
    else:
        return [(path, data)] if path.endswith("dropout") else []
    return [found for where, value in pairs for found in _dropouts(value, where)]
