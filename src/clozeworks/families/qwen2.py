"""Qwen2 and Qwen2.5: LLaMA with biases on queries, keys and values.

Paper: Qwen team 2024.
The idea: biases where positions are turned help with texts longer than those of training; all else
is LLaMA, with a large vocabulary for many languages.
Compat: `use_sliding_window` is off in every published config, and then `sliding_window` says
nothing. Where it is on, the layers from `max_window_layers` on see a window.
This file states only what differs from LLaMA.
"""

from dataclasses import replace
from typing import Any

from clozeworks.core.blueprint import Blueprint
from clozeworks.families import llama, mistral
from clozeworks.families.family import FULL, LOCAL, Config, Parts, with_attentions
from clozeworks.text.tokenizer.styles import QWEN2_STYLE

UNSTATED = {
    "vocab_size": 151_936,
    "intermediate_size": 22_016,
    "num_key_value_heads": 32,
    "max_position_embeddings": 32_768,
}


def read(config: Config, parts: Parts) -> Blueprint:
    """The blueprint of a Qwen2 config."""
    biases = {"attention_bias": True, "mlp_bias": False}
    stated = Config({**config.with_defaults(UNSTATED), **biases}, config.source_location)
    blueprint = llama.read(stated, parts)
    window = config.get("sliding_window", 4096)
    if not config.truth("use_sliding_window", False):
        window = None
    full = config.whole("max_window_layers", 28, minimum=0)
    depth = len(blueprint.encoder.layers)
    usual = [LOCAL if window is not None and number >= full else FULL for number in range(depth)]
    masks = mistral.read_windows(config, window, usual)
    return with_attentions(blueprint, ({"mask": mask, "output_bias": False} for mask in masks))


def write(blueprint: Blueprint) -> dict[str, Any]:
    """The config of a Qwen2 blueprint."""
    config = {**llama.write(blueprint), **mistral.written_windows(blueprint)}
    config["use_sliding_window"] = config["sliding_window"] is not None
    return {key: value for key, value in config.items() if key not in mistral.BIASES}


def _size(
    layers: int, width: int, inner: int, heads: int, kv_heads: int, **more: Any
) -> dict[str, Any]:
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": 151_936,
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": 32_768,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0},
        **more,
    }


_LARGE = {"vocab_size": 152_064, "max_position_embeddings": 131_072}

FAMILY = replace(
    llama.FAMILY,
    model_type="qwen2",
    paper="Qwen team 2024",
    base="Qwen2Model",
    architectures={
        name.replace("Llama", "Qwen2"): shape for name, shape in llama.FAMILY.architectures.items()
    },
    sizes={
        "qwen2.5-0.5b": _size(24, 896, 4864, 14, 2, tie_word_embeddings=True),
        "qwen2.5-1.5b": _size(28, 1536, 8960, 12, 2, tie_word_embeddings=True),
        "qwen2.5-3b": _size(36, 2048, 11_008, 16, 2, tie_word_embeddings=True),
        "qwen2.5-7b": _size(28, 3584, 18_944, 28, 4, **_LARGE),
        "qwen2.5-14b": _size(48, 5120, 13_824, 40, 8, **{**_LARGE, "rms_norm_eps": 1e-5}),
    },
    style=QWEN2_STYLE,
    read=read,
    write=write,
)
