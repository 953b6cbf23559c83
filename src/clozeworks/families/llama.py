"""LLaMA 1, 2 and 3: a decoder with rotary positions, gated feed-forward and no biases.

Paper: Touvron et al. 2023; Ainslie et al. 2023 (heads that share keys); Llama team 2024.
The idea: what was learned about decoders since GPT-2, put together: norms by the root mean square
before the parts, rotary positions, SwiGLU, and in larger and newer models few heads of keys, so
that the cache of a long text stays small.
Where paper and code differ: the release pairs neighbouring numbers of a head for the turn, Hugging
Face checkpoints the two halves; their rows are permuted to make it equal.
Compat: older configs state `rope_theta` and `rope_scaling`, newer ones `rope_parameters`. Both are
read, the newer is written.
"""

from collections.abc import Mapping
from typing import Any

from clozeworks.core.attention.attention import SelfAttention
from clozeworks.core.attention.masks import Causal
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads import HeadSpec
from clozeworks.core.heads.pooled import LastTokenClasses
from clozeworks.core.heads.tokens import TokenClasses
from clozeworks.core.heads.vocabulary import PlainVocabulary
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layers.feed_forward import GatedMlp
from clozeworks.core.layers.norm import RmsNorm
from clozeworks.core.layers.sublayer import PreNorm
from clozeworks.core.layers.tower import Tower
from clozeworks.core.positions.rotary import Rotary, RotaryScaling, Slower, SlowerWhereSlow
from clozeworks.errors import CheckpointError, UnknownName
from clozeworks.families.family import ANSWER_HEAD, Config, Family, Parts, architecture
from clozeworks.families.gpt2 import spelled
from clozeworks.families.weights import rules
from clozeworks.text.tokenizer.styles import LLAMA_STYLE


def read(config: Config, parts: Parts) -> Blueprint:
    """The blueprint of a LLaMA config."""
    norm = RmsNorm(eps=config.number("rms_norm_eps", 1e-6))
    width = config.whole("hidden_size", 4096)
    heads = config.whole("num_attention_heads", 32)
    head_width = config.get("head_dim")
    if head_width is None:
        head_width = width // config.heads("num_attention_heads", "hidden_size", heads, width)
    else:
        head_width = config.whole("head_dim", 0)
    kv_heads = config.whole("num_key_value_heads", heads)
    if heads % kv_heads:
        raise config.complaint(
            "num_key_value_heads",
            f"it must divide num_attention_heads, which is {heads}; change one of them.",
        )
    if head_width % 2:
        raise CheckpointError(
            f"{config.source_location}: a head is {head_width} wide; rotary positions turn pairs "
            f"of numbers, so it must be even; change head_dim, hidden_size or num_attention_heads."
        )
    attention = SelfAttention(
        heads=heads,
        kv_heads=kv_heads,
        head_width=head_width,
        mask=Causal(),
        positions=_positions(config),
        dropout=config.probability("attention_dropout", 0.0),
        bias=config.truth("attention_bias", False),
    )
    feed_forward = GatedMlp(
        inner=config.whole("intermediate_size", 11_008),
        activation=config.activation("hidden_act", "silu"),
        bias=config.truth("mlp_bias", False),
    )
    layer = tuple(PreNorm(part=part, norm=norm) for part in (attention, feed_forward))
    return Blueprint(
        width=width,
        embeddings=Embeddings(tokens=config.whole("vocab_size", 32_000)),
        encoder=Tower(layers=(layer,) * config.depth("num_hidden_layers", 32), final_norm=norm),
        heads=_heads(config, parts),
    )


def _positions(config: Config) -> Rotary:
    stated: Any = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(stated, Mapping):
        raise CheckpointError(
            f"{config.source_location}: rope_parameters is {stated!r}; it must be a table; correct "
            "it."
        )
    # Compat: a table in which a setting of the config itself may be repeated.
    table = Config(
        {"rope_theta": config.get("rope_theta"), **stated}, f"{config.source_location}: rope"
    )
    theta = table.number("rope_theta", 10_000.0)
    if not theta:
        raise table.complaint("rope_theta", "it must be a number above 0; correct it.")
    return Rotary(theta=theta, scaling=_scaling(table))


def _scaling(table: Config) -> RotaryScaling | None:
    kind = table.get("rope_type", table.get("type", "default"))
    if kind == "default":
        return None
    if kind == "linear":
        return Slower(factor=table.number("factor", 1.0))
    if kind == "llama3":
        return SlowerWhereSlow(
            factor=table.number("factor", 8.0),
            low=table.number("low_freq_factor", 1.0),
            high=table.number("high_freq_factor", 4.0),
            length=table.whole("original_max_position_embeddings", 8192),
        )
    raise UnknownName(
        f"{table.source_location}.rope_type", str(kind), ("default", "linear", "llama3")
    )


def _heads(config: Config, parts: Parts) -> dict[str, HeadSpec]:
    # Compat: published classes drop a tenth before they sort tokens.
    dropout = config.probability("classifier_dropout", 0.1)
    possible: dict[str, HeadSpec] = {
        "vocabulary": PlainVocabulary(tied=config.truth("tie_word_embeddings", False), bias=False),
        "classes": LastTokenClasses(count=config.classes()),
        "tokens": TokenClasses(count=config.classes(), dropout=dropout),
        ANSWER_HEAD: TokenClasses(count=2),
    }
    return {name: head for name, head in possible.items() if name in parts}


def write(blueprint: Blueprint) -> dict[str, Any]:
    """The config of a LLaMA blueprint."""
    attention, feed_forward = (sub.part for sub in blueprint.encoder.layers[0])
    config = {
        "vocab_size": blueprint.embeddings.tokens,
        "hidden_size": blueprint.width,
        "num_hidden_layers": len(blueprint.encoder.layers),
        "num_attention_heads": getattr(attention, "heads", None),
        "num_key_value_heads": getattr(attention, "kv_heads", None),
        "head_dim": getattr(attention, "head_width", None),
        "attention_bias": getattr(attention, "bias", None),
        "attention_dropout": getattr(attention, "dropout", None),
        "intermediate_size": getattr(feed_forward, "inner", None),
        "hidden_act": spelled(getattr(feed_forward, "activation", "")),
        "mlp_bias": getattr(feed_forward, "bias", None),
        "rms_norm_eps": getattr(blueprint.encoder.final_norm, "eps", None),
        "rope_parameters": _written_positions(getattr(attention, "positions", None)),
        "tie_word_embeddings": getattr(blueprint.heads.get("vocabulary"), "tied", False),
    }
    for name in ("classes", "tokens"):
        if name in blueprint.heads:
            config["num_labels"] = getattr(blueprint.heads[name], "count", None)
    if "tokens" in blueprint.heads:
        config["classifier_dropout"] = getattr(blueprint.heads["tokens"], "dropout", None)
    return config


def _written_positions(positions: Any) -> dict[str, Any]:
    table: dict[str, Any] = {"rope_theta": getattr(positions, "theta", None)}
    scaling = getattr(positions, "scaling", None)
    if isinstance(scaling, Slower):
        return {**table, "rope_type": "linear", "factor": scaling.factor}
    if isinstance(scaling, SlowerWhereSlow):
        return {
            **table,
            "rope_type": "llama3",
            "factor": scaling.factor,
            "low_freq_factor": scaling.low,
            "high_freq_factor": scaling.high,
            "original_max_position_embeddings": scaling.length,
        }
    return {**table, "rope_type": "default"}


BODY = rules(
    ("embeddings.tokens.weight", "embed_tokens.weight"),
    *(
        (
            f"encoder.layers.{{layer}}.attention.part.{ours}.{{kind}}",
            f"layers.{{layer}}.self_attn.{theirs}_proj.{{kind}}",
        )
        for ours, theirs in {"query": "q", "key": "k", "value": "v", "output": "o"}.items()
    ),
    *(
        (
            f"encoder.layers.{{layer}}.feed_forward.part.{name}.{{kind}}",
            f"layers.{{layer}}.mlp.{name}_proj.{{kind}}",
        )
        for name in ("gate", "up", "down")
    ),
    ("encoder.layers.{layer}.attention.norm.weight", "layers.{layer}.input_layernorm.weight"),
    (
        "encoder.layers.{layer}.feed_forward.norm.weight",
        "layers.{layer}.post_attention_layernorm.weight",
    ),
    ("encoder.norm.weight", "norm.weight"),
)


def _size(
    layers: int,
    width: int,
    inner: int,
    *,
    max_positions: int = 4096,
    vocab: int = 32_000,
    heads: int | None = None,
    kv_heads: int | None = None,
) -> dict[str, Any]:
    heads = heads or width // 128
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads or heads,
        "vocab_size": vocab,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": max_positions,
    }


def _third(
    layers: int, width: int, inner: int, *, slower: float | None = None, **more: Any
) -> dict[str, Any]:
    """LLaMA 3: a large vocabulary; from 3.1 on slower turns, for texts sixteen times as long."""
    turns = {"rope_type": "default", "rope_theta": 500_000.0}
    if slower is not None:
        turns |= {
            "rope_type": "llama3",
            "factor": slower,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        }
    max_positions = 8192 if slower is None else 131_072
    size = _size(
        layers, width, inner, max_positions=max_positions, vocab=128_256, kv_heads=8, **more
    )
    return {**size, "rope_parameters": turns}


FAMILY = Family(
    model_type="llama",
    paper="Touvron et al. 2023",
    prefix="model.",
    base="LlamaModel",
    architectures={
        "LlamaModel": architecture(),
        "LlamaForCausalLM": architecture("vocabulary"),
        "LlamaForSequenceClassification": architecture(
            "classes", rules=rules(("heads.classes.project.weight", "score.weight"))
        ),
        "LlamaForTokenClassification": architecture(
            "tokens", rules=rules(("heads.tokens.project.{kind}", "score.{kind}"))
        ),
    },
    body=BODY,
    head=rules(("heads.vocabulary.decoder.weight", "lm_head.weight")),
    ignored=("layers.{layer}.self_attn.rotary_emb.inv_freq",),
    sizes={
        "llama-7b": {**_size(32, 4096, 11_008, max_positions=2048), "rms_norm_eps": 1e-6},
        "llama-2-7b": _size(32, 4096, 11_008),
        "llama-2-13b": _size(40, 5120, 13_824),
        "llama-2-70b": _size(80, 8192, 28_672, kv_heads=8),
        "llama-3-8b": _third(32, 4096, 14_336),
        "llama-3-70b": _third(80, 8192, 28_672),
        "llama-3.1-8b": _third(32, 4096, 14_336, slower=8.0),
        "llama-3.1-70b": _third(80, 8192, 28_672, slower=8.0),
        "llama-3.2-1b": {
            **_third(16, 2048, 8192, slower=32.0, heads=32),
            "tie_word_embeddings": True,
        },
        "llama-3.2-3b": {
            **_third(28, 3072, 8192, slower=32.0),
            "tie_word_embeddings": True,
        },
    },
    # Compat: otherwise numbers of the published vocabulary are assumed, which others may not have.
    unstated=dict.fromkeys(("bos_token_id", "eos_token_id")),
    style=LLAMA_STYLE,
    read=read,
    write=write,
)
