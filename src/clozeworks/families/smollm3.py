"""SmolLM3: LLaMA whose every fourth layer knows no positions.

Paper: Yang et al. 2025 (layers without rotary positions among others); Bakouch et al. 2025 (the
model).
The idea: a layer that does not turn queries and keys finds what fits by its content alone, however
far away, and the layers between keep the order.
Trap: `no_rope_layers` has a 1 for each layer that does turn.
This file states only what differs from LLaMA.
"""

from dataclasses import replace
from typing import Any

from clozeworks.core.blueprint import Blueprint
from clozeworks.families import llama, mistral
from clozeworks.families.family import FULL, LOCAL, Config, Parts, with_attentions
from clozeworks.text.tokenizer.styles import SMOLLM3_STYLE

UNSTATED = {
    "vocab_size": 128_256,
    "hidden_size": 2048,
    "num_hidden_layers": 36,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32_768,
    "rope_theta": 2_000_000.0,
    "tie_word_embeddings": True,
}


def read(config: Config, parts: Parts) -> Blueprint:
    """The blueprint of a SmolLM3 config."""
    blueprint = llama.read(config.with_defaults(UNSTATED), parts)
    turning = _turning(config, len(blueprint.encoder.layers))
    window = config.get("sliding_window")
    slides = config.truth("use_sliding_window", False) and window is not None
    usual = [LOCAL if slides and not turns else FULL for turns in turning]
    masks = mistral.read_windows(config, window, usual)
    return with_attentions(
        blueprint,
        (
            {"mask": mask} if turns else {"mask": mask, "positions": None}
            for mask, turns in zip(masks, turning, strict=True)
        ),
    )


def _turning(config: Config, depth: int) -> list[bool]:
    """Whether each layer has positions."""
    stated = config.get("no_rope_layers")
    if stated is None:
        every = config.whole("no_rope_layer_interval", 4)
        return [number % every != 0 for number in range(1, depth + 1)]
    rule = f"it must be a list with a 0 or a 1 for each of the {depth} layers; correct it."
    if not isinstance(stated, list) or len(stated) < depth:
        raise config.complaint("no_rope_layers", rule)
    for value in stated:
        if value not in (0, 1):
            raise config.complaint("no_rope_layers", rule)
    return [bool(value) for value in stated[:depth]]


def write(blueprint: Blueprint) -> dict[str, Any]:
    """The config of a SmolLM3 blueprint."""
    layers = blueprint.encoder.layers
    turning = [getattr(layer[0].part, "positions", None) is not None for layer in layers]
    # What is said of positions is read off a layer that has them.
    sample = replace(blueprint.encoder, layers=(layers[turning.index(max(turning))], *layers[1:]))
    config = llama.write(replace(blueprint, encoder=sample))
    if not any(turning):
        del config["rope_parameters"]
    windows = mistral.written_windows(blueprint)
    return {
        **config,
        **windows,
        "use_sliding_window": windows["sliding_window"] is not None,
        "no_rope_layers": [int(turns) for turns in turning],
    }


FAMILY = replace(
    llama.FAMILY,
    model_type="smollm3",
    paper="Bakouch et al. 2025",
    base="SmolLM3Model",
    architectures={
        name.replace("Llama", "SmolLM3"): shape
        for name, shape in llama.FAMILY.architectures.items()
    },
    sizes={
        "smollm3-3b": {
            "num_hidden_layers": 36,
            "hidden_size": 2048,
            "intermediate_size": 11_008,
            "num_attention_heads": 16,
            "num_key_value_heads": 4,
            "vocab_size": 128_256,
            "rms_norm_eps": 1e-6,
            "max_position_embeddings": 65_536,
            "rope_parameters": {"rope_type": "default", "rope_theta": 5_000_000.0},
            "no_rope_layer_interval": 4,
            "tie_word_embeddings": True,
        },
    },
    # Compat: otherwise numbers of the published vocabulary are assumed, which others may not have.
    unstated=dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id")),
    style=SMOLLM3_STYLE,
    read=read,
    write=write,
)
