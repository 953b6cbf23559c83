"""What a family file states, and how a published config is read.

A family file defines `FAMILY`, one `Family` value: how `config.json` becomes a blueprint and back,
how weights are named, how text becomes tokens, and the published sizes.
"""

import dataclasses
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from clozeworks import config as settings
from clozeworks import registry
from clozeworks.core.blueprint import BESIDE, Blueprint
from clozeworks.core.heads import HeadSpec
from clozeworks.core.layers import activation
from clozeworks.core.layers.tower import Layer
from clozeworks.errors import CheckpointError, ClozeworksError, UnknownName, UnsupportedError
from clozeworks.families.weights import Form, Names, Rule
from clozeworks.text.tokenizer.styles import Style
from clozeworks.wording import shortened

T = TypeVar("T")
Parts = frozenset[str]
# No published network comes near these; a damaged config easily does.
MAX_NUMBER = 2**31 - 1
MAX_DEPTH = 1_000

# Published names of activations, and ours. Those that learn (`prelu`, `xielu`) are not known.
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    **dict.fromkeys(
        ("gelu_new", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_fast", "gelu_accurate"),
        "gelu_tanh",
    ),
    "swish": "silu",
    **{name: name for name in activation.ACTIVATIONS if name not in ("gelu", "gelu_tanh")},
}

# Published types that look like a misspelling of one of ours, and are other networks.
LOOKALIKES = frozenset(
    (
        "bart",
        "beit",
        "llava",
        "ministral",
        "mixtral",
        "modernbert-decoder",
        "modernvbert",
        "qwen2_moe",
        "qwen2_vl",
        "xlm",
        "xlm-roberta-xl",
    )
)

# The published types of layers: those that see the whole text, and those that see a window.
FULL, LOCAL = "full_attention", "sliding_attention"

# Where a size comes from that nobody published.
OWN = "ours, for trying"

# The head with two logits for each token: where an answer begins and where it ends.
ANSWER_HEAD = "answer"
# The head that looks for the end of an answer after its beginning.
BEAM_HEAD = "answer_beam"
# The head with one logit for each text: of several texts, the one with the highest is chosen.
CHOICE_HEAD = "choice"


class Config(Mapping[str, Any]):
    """A published `config.json`, read with complaints that name the key and the value."""

    def __init__(
        self,
        values: Mapping[str, Any],
        source_location: str = "config.json",
        spelling: Mapping[str, str] | None = None,
    ) -> None:
        """Takes the values; `spelling` has what complaints call a key, where it differs."""
        self.values_by_name = dict(values)
        self.source_location = source_location
        self.spelling = spelling or {}

    def __getitem__(self, key: str) -> Any:
        return self.values_by_name[key]

    def __iter__(self) -> Any:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)

    def with_defaults(self, defaults: Mapping[str, Any]) -> "Config":
        """The same config with values for keys it does not state."""
        stated = {key: value for key, value in self.items() if value is not None}
        return Config({**defaults, **stated}, self.source_location, self.spelling)

    def whole(self, key: str, default: int, minimum: int = 1) -> int:
        """A whole number; the upper limit keeps a damaged file from asking for all memory."""
        value = self._or_default(key, default)
        if type(value) is not int or not minimum <= value <= MAX_NUMBER:
            rule = f"it must be a whole number from {minimum} to {MAX_NUMBER:,}; correct it."
            raise self.complaint(key, rule)
        return value

    def above_zero(self, key: str, minimum: int = 1) -> int | None:
        """A whole number; None where none is stated, or one below 1, as published configs do."""
        value = self.get(key)
        if value is None or (type(value) is int and value < 1):
            return None
        return self.whole(key, minimum, minimum)

    def depth(self, key: str, default: int) -> int:
        """A number of layers."""
        value = self.whole(key, default)
        if value > MAX_DEPTH:
            raise self.complaint(key, f"it must be at most {MAX_DEPTH:,}; correct it.")
        return value

    def number(self, key: str, default: float) -> float:
        """A number."""
        value = self._or_default(key, default)
        if type(value) not in (int, float) or not 0 <= value <= sys.float_info.max:
            raise self.complaint(key, "it must be a number of at least 0; correct it.")
        return float(value)

    def probability(self, key: str, default: float) -> float:
        """A number from 0 up to, not including, 1: a dropout."""
        value = self.number(key, default)
        if not 0 <= value < 1:
            raise self.complaint(key, "it must be at least 0 and below 1; correct it.")
        return value

    def truth(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self._or_default(key, default)
        if type(value) is not bool:
            raise self.complaint(key, "it must be true or false; correct it.")
        return value

    def activation(self, key: str, default: str = "gelu") -> str:
        """An activation, under our name."""
        return self.one_of(key, ACTIVATIONS, default)

    def one_of(self, key: str, known: Mapping[str, T], default: str) -> T:
        """What one of these names stands for."""
        name = self._or_default(key, default)
        if not isinstance(name, str) or name not in known:
            raise UnknownName(f"{self.source_location}: {self._spelled(key)}", str(name), known)
        return known[name]

    def heads(self, key: str, default: int, width_key: str, width: int) -> int:
        """The number of heads, which must divide the width."""
        heads = self.whole(key, default)
        if width % heads:
            raise CheckpointError(
                f"{self.source_location}: {self._spelled(width_key)} is {width} and "
                f"{self._spelled(key)} is {heads}; the first must be divisible by the second; "
                "change one of them."
            )
        return heads

    def layer_types(self, usual: Sequence[str]) -> Sequence[str]:
        """Which layers see the whole text; `usual` is what is meant where nothing is stated."""
        stated = self.get("layer_types")
        if stated is None:
            return usual
        if not isinstance(stated, list) or len(stated) != len(usual):
            rule = f"it must be a list of {len(usual)} types, one for each layer; correct it."
            raise self.complaint("layer_types", rule)
        for layer, kind in enumerate(stated):
            if kind not in (FULL, LOCAL):
                where = f"{self.source_location}: layer_types[{layer}]"
                raise UnknownName(where, str(kind), (FULL, LOCAL))
        return stated

    def classes(self) -> int:
        """The number of labels of a fine-tuned head."""
        labels = self.get("id2label")
        return (
            len(labels) if isinstance(labels, Mapping) and labels else self.whole("num_labels", 2)
        )

    def refuse(self, key: str, allowed: Sequence[Any], why: str) -> None:
        """Complains about a setting that would change the numbers in a way we do not compute."""
        if key in self and self[key] is not None and self[key] not in allowed:
            raise self.complaint(key, f"{why}; Clozeworks computes only {allowed[0]!r}.")

    def own_positions(self, scheme: str, *names: str) -> None:
        """Complains about BERT's key for positions where a family has a scheme of its own.

        Compat: published configs say `absolute` where nobody chose anything; others may have a name
        for what the family does.
        """
        key = "position_embedding_type"
        if self.get(key) not in (None, "absolute", *names):
            raise self.complaint(key, f"positions of this family are {scheme}; leave it out.")

    def complaint(self, key: str, rule: str, value: Any = None) -> CheckpointError:
        """The error for one key; `value` is that of a key in a table."""
        value = self.get(key) if value is None else value
        text = shortened(repr(value), 500)
        return CheckpointError(f"{self.source_location}: {self._spelled(key)} is {text}; {rule}")

    def _spelled(self, key: str) -> str:
        return self.spelling.get(key, key)

    def _or_default(self, key: str, default: Any) -> Any:
        value = self.get(key)
        return default if value is None else value


@dataclass(frozen=True)
class Architecture:
    """One published model class: the parts beside the body, and names only it uses."""

    parts: Parts
    rules: Sequence[Rule] = ()
    prefix: str | None = None
    """What stands before its body names, if not what the family says."""


def architecture(
    *parts: str, rules: Sequence[Rule] = (), prefix: str | None = None
) -> Architecture:
    """An architecture with these parts."""
    return Architecture(frozenset(parts), rules, prefix)


@dataclass(frozen=True, kw_only=True)
class Family:
    """Everything published about a family."""

    model_type: str
    """The name in `config.json`."""
    paper: str
    prefix: str
    """What stands before body names when there is a head."""
    base: str
    """The architecture without a head, whose names carry no prefix."""
    architectures: Mapping[str, Architecture]
    body: Sequence[Rule]
    head: Sequence[Rule]
    """Head names that mean the same in every architecture."""
    ignored: Sequence[str] = ()
    spellings: Callable[[Config], Sequence[Rule]] = lambda config: ()
    """Names that depend on the config; they count before all others."""
    forms: Callable[[Config], Sequence[Form]] = lambda config: ()
    """Published weights that are several of ours, or of another shape."""
    extras: Parts = frozenset()
    """Parts that belong to no architecture alone: kept where a folder holds them, or added by the
    objective that trains them. Their names stand in `head`, or in `body` where the published
    encoder holds them."""
    stds: Callable[[Blueprint], Mapping[str, float]] = lambda blueprint: {}
    """Standard deviations of initial weights where they differ: by patterns of our names, of which
    the first that matches counts."""
    sizes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Published sizes, and tiny ones to try things out with: the config of each."""
    size_notes: Mapping[str, str] = field(default_factory=dict)
    """Where sizes come from that are not from the paper; `OWN` for those that nobody published."""
    of_bytes: frozenset[str] = frozenset()
    """Published sizes whose tokens are bytes; they need no tokenizer file."""
    unstated: Mapping[str, Any] = field(default_factory=dict)
    """What a written config says where nobody stated it, because the published library would assume
    something that holds for its own vocabulary only."""
    max_positions_key: str = "max_position_embeddings"
    """The key of a config that says how many tokens a text may have."""
    style: Style
    """How a new tokenizer of this family writes text."""
    read: Callable[[Config, Parts], Blueprint]
    """Config and parts to blueprint."""
    write: Callable[[Blueprint], dict[str, Any]]
    """Blueprint to config; the keys `read` reads."""

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy, pickled or not, is the family itself: it is code, and known by its name.
        return family, (self.model_type,)

    @cached_property
    def paths(self) -> dict[str, str]:
        """Where the weights of each part are, by the part's name."""
        parts = {part for shape in self.architectures.values() for part in shape.parts}
        parts |= self.extras
        return {part: f"{part}." if part in BESIDE else f"heads.{part}." for part in parts}

    @cached_property
    def inside(self) -> Parts:
        """Parts of ours that the published encoder holds: they go wherever it goes."""
        heads = (rule.ours.split(".") for rule in self.body if rule.ours.startswith("heads."))
        return frozenset(name for _, name, *_ in heads)

    def blueprint(self, config: Config, parts: Parts) -> Blueprint:
        """The blueprint of a config, with these parts beside the body."""
        return self.read(config, parts).check()

    def published(self, size: str) -> Config:
        """The config of a published size."""
        return Config({"model_type": self.model_type, **self.sizes[size]}, size)

    def config(
        self, blueprint: Blueprint, stated: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The config of a blueprint, or a complaint if this family cannot express it.

        It goes together with what was `stated` before, whose other keys are kept. Names (of an
        activation, say) are spelled as they were where that means the same.
        """
        stated = stated or {}
        written = {"model_type": self.model_type, **self.write(blueprint)}
        again = self.read(Config({**stated, **written}), blueprint.parts)
        if again != blueprint:
            where, ours, theirs = _difference(settings.plain(blueprint), settings.plain(again))
            raise UnsupportedError(
                f"{where} is {ours!r}, but a config of {self.model_type} can only say {theirs!r}; "
                f"keep the blueprint within what the family can express to save it."
            )
        for key, spelled in stated.items():
            if isinstance(spelled, str) and written.get(key, spelled) != spelled:
                config = Config({**stated, **written, key: spelled})
                written[key] = spelled if self._means(config, blueprint) else written[key]
        return written

    def _means(self, config: Config, blueprint: Blueprint) -> bool:
        try:
            return self.read(config, blueprint.parts) == blueprint
        except ClozeworksError:  # what was stated belongs to another blueprint
            return False

    def names(self, name: str, config: Config | None = None) -> Names:
        """The weight names of an architecture, as this config spells them."""
        shape = self.architectures[name]
        spelled = self.spellings(config or Config({}))
        of_heads = [rule for rule in spelled if rule.ours.startswith("heads.")]
        body = [rule for rule in spelled if rule not in of_heads]
        prefix = self.prefix if shape.prefix is None else shape.prefix
        head = (*of_heads, *shape.rules, *self.head)
        return Names(prefix, (*body, *self.body), head, tuple(self.ignored))

    def fitting(self, parts: Parts) -> str:
        """The architecture that holds exactly these parts, or else all of them, extras aside."""
        parts = parts - self.extras
        for name, shape in self.architectures.items():
            if shape.parts == parts:
                return name
        holding = [name for name, shape in self.architectures.items() if shape.parts >= parts]
        if not holding:
            raise UnsupportedError(
                f"heads is {', '.join(sorted(parts))}; no published {self.model_type} architecture "
                f"holds all of them; save them as separate models."
            )
        return min(holding, key=lambda name: len(self.architectures[name].parts))


def families() -> dict[str, Family]:
    """Every family by model type: the folder is the list."""
    modules = registry.modules("clozeworks.families", marker="FAMILY").values()
    return {module.FAMILY.model_type: module.FAMILY for module in modules}


def family(model_type: str, source_location: str = "config.json") -> Family:
    """The family with this model type."""
    known = families()
    if model_type not in known:
        propose = model_type not in LOOKALIKES
        raise UnknownName(f"{source_location}: model_type", model_type, known, propose)
    return known[model_type]


def published_sizes() -> dict[str, Family]:
    """Every published size, and the family it belongs to."""
    return {size: family for family in families().values() for size in family.sizes}


def head_keys(heads: Mapping[str, HeadSpec], *keys: tuple[str, str, str]) -> dict[str, Any]:
    """What a config says of the heads that are there; of each key, the head and its field."""
    return {key: getattr(heads[head], field, None) for key, head, field in keys if head in heads}


def vocabulary_size(blueprint: Blueprint, tokens: int) -> Blueprint:
    """The same blueprint for a vocabulary of another size."""
    embeddings = dataclasses.replace(blueprint.embeddings, tokens=tokens)
    return dataclasses.replace(blueprint, embeddings=embeddings)


def with_attentions(blueprint: Blueprint, changes: Iterable[Mapping[str, Any]]) -> Blueprint:
    """The same blueprint, the attention of each layer with other values of some fields."""

    def changed(layer: Layer, fields: Mapping[str, Any]) -> Layer:
        attention: Any = layer[0]
        part = dataclasses.replace(attention.part, **fields)
        return (dataclasses.replace(attention, part=part), *layer[1:])

    tower = blueprint.encoder
    layers = tuple(map(changed, tower.layers, changes))
    return dataclasses.replace(blueprint, encoder=dataclasses.replace(tower, layers=layers))


def _difference(ours: Any, theirs: Any, path: str = "blueprint") -> tuple[str, Any, Any]:
    """Where two plain trees differ first, and what each has there."""
    if type(ours) is type(theirs) and isinstance(ours, dict) and ours.keys() == theirs.keys():
        pairs = [(f"{path}.{key}", ours[key], theirs[key]) for key in ours]
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = [(f"{path}[{i}]", ours[i], theirs[i]) for i in range(len(ours))]
    else:
        return path, ours, theirs
    for where, left, right in pairs:
        if left != right:
            return _difference(left, right, where)
    return path, ours, theirs
