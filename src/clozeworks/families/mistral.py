"""Mistral: LLaMA with few heads of keys and, in the first version, a window.

Paper: Jiang et al. 2023.
The idea: a token sees the 4,096 before it; what is further back arrives through the layers. Later
versions see everything and have no window.
Compat: a config without `sliding_window` has one of 4,096; null is none. Relatives list which of
their layers have one (`layer_types`); they read and write their windows with what stands here.
This file states only what differs from LLaMA.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from clozeworks.core.attention.masks import Causal, SlidingWindow
from clozeworks.core.blueprint import Blueprint
from clozeworks.families import llama
from clozeworks.families.family import FULL, LOCAL, Config, Parts, with_attentions
from clozeworks.text.tokenizer.styles import MISTRAL_STYLE

WINDOW = 4096
UNSTATED = {
    "intermediate_size": 14_336,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131_072,
}
# There are no biases, whatever a config says.
BIASES = ("attention_bias", "mlp_bias")


def read(config: Config, parts: Parts) -> Blueprint:
    """The blueprint of a Mistral config."""
    stated = config.with_defaults(UNSTATED)
    plain = Config({**stated, **dict.fromkeys(BIASES, False)}, config.source_location)
    blueprint = llama.read(plain, parts)
    window = config.get("sliding_window", WINDOW)
    depth = len(blueprint.encoder.layers)
    usual = [FULL if window is None else LOCAL] * depth
    # Compat: `layer_types` is a key of relatives of Mistral, not of its own.
    alone = Config({"sliding_window": window}, config.source_location)
    masks = read_windows(alone, window, usual)
    return with_attentions(blueprint, ({"mask": mask} for mask in masks))


def write(blueprint: Blueprint) -> dict[str, Any]:
    """The config of a Mistral blueprint."""
    config = {**llama.write(blueprint), **written_windows(blueprint)}
    return {key: value for key, value in config.items() if key not in (*BIASES, "layer_types")}


def read_windows(config: Config, stated: Any, usual: Sequence[str]) -> list[Causal]:
    """The mask of every layer of a decoder.

    Args:
        config: The config.
        stated: Its `sliding_window`, or what it means where there is none.
        usual: The types of the layers where `layer_types` is not stated.
    """
    types = config.layer_types(usual)
    if LOCAL not in types:
        return [Causal() for _ in types]
    if type(stated) is not int or stated < 1:
        rule = f"a layer is {LOCAL}, so it must be a whole number above 0; correct one of them."
        raise config.complaint("sliding_window", rule)
    return [SlidingWindow(length=stated) if kind == LOCAL else Causal() for kind in types]


def written_windows(blueprint: Blueprint) -> dict[str, Any]:
    """What a config says of the masks: the types of the layers and the length of the window."""
    masks = [getattr(layer[0].part, "mask", None) for layer in blueprint.encoder.layers]
    lengths = [mask.length for mask in masks if isinstance(mask, SlidingWindow)]
    return {
        "layer_types": [LOCAL if isinstance(mask, SlidingWindow) else FULL for mask in masks],
        "sliding_window": lengths[0] if lengths else None,
    }


def _size(layers: int, width: int, inner: int, **more: Any) -> dict[str, Any]:
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "intermediate_size": inner,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 32_000,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 32_768,
        "sliding_window": None,
        **more,
    }


_LONG = {"rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0}}

FAMILY = replace(
    llama.FAMILY,
    model_type="mistral",
    paper="Jiang et al. 2023",
    base="MistralModel",
    # Compat: LLaMA's class for answers has a prefix of its own, which Mistral's has not.
    architectures={
        name.replace("Llama", "Mistral"): replace(shape, prefix=None)
        for name, shape in llama.FAMILY.architectures.items()
    },
    sizes={
        "mistral-7b-v0.1": _size(32, 4096, 14_336, sliding_window=WINDOW),
        "mistral-7b-v0.2": _size(32, 4096, 14_336, **_LONG),
        "mistral-7b-v0.3": _size(32, 4096, 14_336, vocab_size=32_768, **_LONG),
        "mistral-nemo-12b": _size(
            40, 5120, 14_336, vocab_size=131_072, max_position_embeddings=131_072, **_LONG
        ),
    },
    style=MISTRAL_STYLE,
    read=read,
    write=write,
)
