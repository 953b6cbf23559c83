"""mT5: T5 v1.1 for 101 languages.

Paper: Xue et al. 2021.
The idea: the same network with a vocabulary of 250,000 pieces; rare languages are read more often
than they occur.
Trap: newer configs say that input and output share a table, although in every published checkpoint
they do not; the weights decide. What the output reads is never divided.
"""

from functools import partial
from typing import Any

from clozeworks.core.blueprint import Blueprint
from clozeworks.families import t5
from clozeworks.families.family import Config, Family, Parts


def read(config: Config, parts: Parts) -> Blueprint:
    """The blueprint of an mT5 config."""
    return t5.read(_stated(config), parts)


def _stated(config: Config) -> Config:
    return Config({**t5.NEWER, **config, "scale_decoder_outputs": False}, config.source_location)


def write(blueprint: Blueprint) -> dict[str, Any]:
    """The config of an mT5 blueprint."""
    config = t5.write(blueprint)
    del config["scale_decoder_outputs"]
    return config


_size = partial(t5.size, vocab_size=250_112)

FAMILY = Family(
    model_type="mt5",
    paper="Xue et al. 2021",
    prefix="",
    base="MT5Model",
    architectures={
        name.replace("T5", "MT5"): shape for name, shape in t5.FAMILY.architectures.items()
    },
    body=t5.BODY,
    head=t5.FAMILY.head,
    ignored=t5.FAMILY.ignored,
    spellings=lambda config: t5.FAMILY.spellings(_stated(config)),
    stds=t5.stds,
    sizes={
        "mt5-small": _size(8, 512, 1024, 6),
        "mt5-base": _size(12, 768, 2048, 12),
        "mt5-large": _size(24, 1024, 2816, 16),
        "mt5-xl": _size(24, 2048, 5120, 32),
        "mt5-xxl": _size(24, 4096, 10_240, 64),
    },
    unstated=t5.FAMILY.unstated,
    style=t5.FAMILY.style,
    read=read,
    write=write,
)
