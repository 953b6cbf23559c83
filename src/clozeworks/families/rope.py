"""How configs state rotary positions, and how turns are scaled for longer texts.

Compat: older configs state `rope_theta` and `rope_scaling` (its kind under `type`), newer ones
`rope_parameters` (under `rope_type`). All are read; where both are stated, `rope_scaling` counts,
as in transformers. The newer is written, and a scaling under the older name, too, for older
libraries.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clozeworks.core.positions.rotary import (
    DynamicNtk,
    LongRope,
    Rotary,
    RotaryScaling,
    Slower,
    SlowerWhereSlow,
    Yarn,
)
from clozeworks.errors import UnknownName
from clozeworks.families.family import Config

KINDS = ("default", "dynamic", "linear", "llama3", "longrope", "yarn")


def read_rotary(config: Config, longest: int) -> Rotary:
    """The rotary positions of a config; `longest` is the family's `max_position_embeddings`."""
    stated: Any = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if not isinstance(stated, Mapping):
        raise config.complaint("rope_parameters", "it must be a table; correct it.", stated)
    # Compat: a table in which a setting of the config itself may be repeated.
    table = Config(
        {
            "rope_theta": config.get("rope_theta"),
            "partial_rotary_factor": config.get("partial_rotary_factor"),
            **stated,
        },
        f"{config.source_location}: rope",
    )
    table.refuse("partial_rotary_factor", [1.0], "a part of each head would not be turned")
    theta = table.number("rope_theta", 10_000.0)
    if not theta:
        raise table.complaint("rope_theta", "it must be a number above 0; correct it.")
    longest = config.whole("max_position_embeddings", longest)
    # Compat: what the config itself states counts more than its table, here alone.
    trained = config.whole(
        "original_max_position_embeddings", table.whole("original_max_position_embeddings", longest)
    )
    return Rotary(theta=theta, scaling=_scaling(table, theta, longest, trained))


def _scaling(table: Config, theta: float, longest: int, trained: int) -> RotaryScaling | None:
    kind = table.get("rope_type") or table.get("type") or "default"
    if kind == "default":
        return None
    if kind == "linear":
        return Slower(factor=_above_zero(table, "factor"))
    if kind == "dynamic":
        return DynamicNtk(factor=_above_zero(table, "factor"), length=longest)
    if kind == "llama3":
        return SlowerWhereSlow(
            factor=_above_zero(table, "factor"),
            low=table.number("low_freq_factor", 1.0),
            high=table.number("high_freq_factor", 4.0),
            length=trained,
        )
    factor = longest / trained
    if table.get("factor") is not None:
        factor = _above_zero(table, "factor")
    if kind == "yarn":
        if theta <= 1:
            raise table.complaint("rope_theta", "yarn needs a number above 1; correct it.")
        return Yarn(
            factor=factor,
            length=trained,
            attention_factor=table.number("attention_factor", _yarn_attention(table, factor)),
            fast=table.number("beta_fast", 32.0) or 32.0,
            slow=table.number("beta_slow", 1.0) or 1.0,
            whole=table.truth("truncate", True),
        )
    if kind == "longrope":
        usual = 1.0
        if factor > 1 and trained > 1:
            usual = math.sqrt(1 + math.log(factor) / math.log(trained))
        return LongRope(
            short=_factors(table, "short_factor"),
            long=_factors(table, "long_factor"),
            length=trained,
            attention_factor=table.number("attention_factor", usual),
        )
    raise UnknownName(f"{table.source_location}.rope_type", str(kind), KINDS)


def _above_zero(table: Config, key: str) -> float:
    value = table.number(key, 0.0)
    if not value:
        raise table.complaint(key, "it must be a number above 0; state it.")
    return value


def _yarn_attention(table: Config, factor: float) -> float:
    """What YaRN multiplies queries and keys by where nothing is stated."""

    def grown(by: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * by * math.log(factor) + 1.0

    scale, scale_all = (table.number(key, 0.0) for key in ("mscale", "mscale_all_dim"))
    return grown(scale) / grown(scale_all) if scale and scale_all else grown(1.0)


def _factors(table: Config, key: str) -> tuple[float, ...]:
    values = table.get(key)
    if not isinstance(values, list | tuple) or not values:
        raise table.complaint(key, "it must be a list of numbers, one for each pair; state it.")
    for value in values:
        if type(value) not in (int, float) or not 0 < value < float("inf"):
            raise table.complaint(key, "each must be a number above 0; correct it.", value)
    return tuple(float(value) for value in values)


def written_rotary(positions: Any) -> dict[str, Any]:
    """What a config says of rotary positions."""
    table: dict[str, Any] = {"rope_theta": getattr(positions, "theta", None)}
    scaling = getattr(positions, "scaling", None)
    if scaling is None:
        return {"rope_parameters": {**table, "rope_type": "default"}, "rope_scaling": None}
    table |= _WRITTEN[type(scaling)](scaling)
    config: dict[str, Any] = {"rope_parameters": table, "rope_scaling": table}
    if isinstance(scaling, DynamicNtk):
        config["max_position_embeddings"] = scaling.length
    return config


def _fields(kind: str, **names: str) -> Callable[[RotaryScaling], dict[str, Any]]:
    """What is written of a scaling: its kind, and published names of its fields."""

    def write(scaling: RotaryScaling) -> dict[str, Any]:
        values = {theirs: getattr(scaling, ours) for ours, theirs in names.items()}
        lists = {key: list(value) for key, value in values.items() if isinstance(value, Sequence)}
        return {"rope_type": kind, **values, **lists}

    return write


_TRAINED = {"length": "original_max_position_embeddings"}
_WRITTEN = {
    Slower: _fields("linear", factor="factor"),
    DynamicNtk: _fields("dynamic", factor="factor"),
    SlowerWhereSlow: _fields(
        "llama3",
        factor="factor",
        low="low_freq_factor",
        high="high_freq_factor",
        **_TRAINED,
    ),
    Yarn: _fields(
        "yarn",
        factor="factor",
        attention_factor="attention_factor",
        fast="beta_fast",
        slow="beta_slow",
        whole="truncate",
        **_TRAINED,
    ),
    LongRope: _fields(
        "longrope",
        short="short_factor",
        long="long_factor",
        attention_factor="attention_factor",
        **_TRAINED,
    ),
}
