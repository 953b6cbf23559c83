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
from clozeworks.errors import SettingError, Stated
from clozeworks.spec import DropoutRate, PositiveInt, check, spec

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
    rereads: int | None = None
    """Whether heads read the decoder, which reads the text once more: the token it begins with, as
    every other is shown one position later; None if heads read the encoder."""

    def check(self) -> "Blueprint":
        """Returns itself, or says which rule is broken and where."""
        check("width", self.width, PositiveInt)
        check("embeddings.tokens", self.embeddings.tokens, PositiveInt)
        longest = self.max_length()
        if longest is not None and longest < 1:
            room = Stated(f"a table with room for {longest} tokens")
            raise SettingError(
                "embeddings.positions",
                room,
                "it needs room for at least 1",
                "raise count or lower offset",
            )
        if self.rereads is not None and self.decoder is None:
            raise SettingError("decoder", None, "`rereads` needs one", "add it, or leave that out")
        if self.rereads is not None and not 0 <= self.rereads < self.embeddings.tokens:
            rule = f"it must be a token from 0 to {self.embeddings.tokens - 1}"
            raise SettingError("rereads", self.rereads, rule)
        for name, tower in self.towers().items():
            self._check_tower(name, tower)
        for path, value in _dropouts(config.plain(self)):
            check(path, value, DropoutRate)
        for name, head in self.heads.items():
            if head.reads_pooler and self.pooler is None:
                raise SettingError("pooler", None, f"`heads.{name}` reads it", "add the pooler")
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
        """Whether it can generate: no token of the tower that predicts sees a later one."""
        tower = self.decoder or self.encoder
        parts = [sub.part for layer in tower.layers for sub in layer]
        attentions = [part for part in parts if isinstance(part, SelfAttention)]
        return bool(attentions) and all(isinstance(part.mask, Causal) for part in attentions)

    def _check_tower(self, name: str, tower: Tower) -> None:
        for index, layer in enumerate(tower.layers):
            where = f"{name}.layers[{index}]"
            for role, sub in zip(sublayer_names(layer), layer, strict=True):
                if isinstance(sub.part, SelfAttention | CrossAttention):
                    self._check_heads(f"{where}.{role}", sub.part)
                if isinstance(sub.part, CrossAttention) and name == "encoder":
                    raise SettingError(
                        f"{where}.{role}",
                        Stated("cross-attention"),
                        "it attends to what an encoder made, and an encoder cannot",
                        "put it into the decoder",
                    )
        last = len(tower.layers) - 1
        for step, index in enumerate(tower.running_order()):
            if not 0 <= index <= last:
                rule = f"it must be a layer from 0 to {last}"
                raise SettingError(f"{name}.order[{step}]", index, rule)

    def _check_heads(self, where: str, part: SelfAttention | CrossAttention) -> None:
        heads, change = f"{where}.heads", "change one of them"
        check(heads, part.heads, PositiveInt)
        if isinstance(part, SelfAttention) and part.kv_heads is not None:
            check(f"{where}.kv_heads", part.kv_heads, PositiveInt)
            if part.heads % part.kv_heads:
                rule = f"it must be divisible by `kv_heads`, {part.kv_heads}"
                raise SettingError(heads, part.heads, rule, change)
        if part.head_width is None and self.width % part.heads:
            rule = f"`width`, {self.width}, must be divisible by it"
            raise SettingError(heads, part.heads, rule, f"{change}, or set `head_width`")

    def max_length(self) -> int | None:
        """The longest text the model can take; None if there is no limit."""
        positions = self.embeddings.positions
        return positions.max_length() if positions else None

    def build(self, device: str = "cpu") -> "Model":
        """Makes the model, its weights not yet meaningful: initialise or load them.

        On the device `meta` it takes no memory and has shapes only.
        """
        from clozeworks.core.model import Model, RereadingModel

        self.check()
        with torch.device(device), Undrawn():
            return Model(self) if self.rereads is None else RereadingModel(self, self.rereads)

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
            wrong = Stated(f"wrong in line {error.lineno}: {error.msg}")
            raise SettingError("blueprint", wrong, "it must be JSON") from error
        blueprint: Blueprint = config.read(cls, data)
        return blueprint.check()


def _dropouts(data: Any, path: str = "") -> list[tuple[str, float]]:
    """Every field called dropout, with its path."""
    if isinstance(data, dict):
        pairs = [(f"{path}.{key}" if path else key, value) for key, value in data.items()]
    elif isinstance(data, list):
        pairs = [(f"{path}[{index}]", value) for index, value in enumerate(data)]
    else:
        return [(path, data)] if path.endswith("dropout") else []
    return [pair for where, value in pairs for pair in _dropouts(value, where)]
