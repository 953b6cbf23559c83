"""LLaMA 1, 2 and 3: a decoder with rotary positions, gated feed-forward and no biases.

Paper: Touvron et al. 2023; Ainslie et al. 2023 (heads that share keys); Llama team 2024.
The idea: what was learned about decoders since GPT-2, put together: norms by the root mean square
before the parts, rotary positions, SwiGLU, and in larger and newer models few heads of keys, so
that the cache of a long text stays small.
Where paper and code differ: the release pairs neighbouring numbers of a head for the turn, Hugging
Face checkpoints the two halves; their rows are permuted to make it equal.
"""

from typing import Any

from clozeworks.core.attention.attention import SelfAttention
from clozeworks.core.attention.masks import Causal
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layers.feed_forward import GatedMlp
from clozeworks.core.layers.norm import RmsNorm
from clozeworks.core.layers.sublayer import PreNorm
from clozeworks.core.layers.tower import Tower
from clozeworks.core.positions.rotary import Rotary, SlowerWhereSlow
from clozeworks.errors import CheckpointError
from clozeworks.families import gpt2
from clozeworks.families.family import (
    ANSWER_HEAD,
    OWN,
    Config,
    Family,
    Parts,
    architecture,
    head_keys,
)
from clozeworks.families.rope import read_rotary, written_rotary
from clozeworks.families.weights import layer_rules, rules
from clozeworks.text.tokenizer.styles import LLAMA_STYLE


def read(config: Config, parts: Parts) -> Blueprint:
    """The blueprint of a LLaMA config."""
    norm = RmsNorm(eps=config.number("rms_norm_eps", 1e-6))
    width = config.whole("hidden_size", 4096)
    heads = config.whole("num_attention_heads", 32)
    if config.get("head_dim") is None:
        head_width = width // config.heads("num_attention_heads", 32, "hidden_size", width)
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
        positions=read_rotary(config, longest=2048),
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
        heads=gpt2.heads(config, parts, tied=False),
    )


def write(blueprint: Blueprint) -> dict[str, Any]:
    """The config of a LLaMA blueprint."""
    attention, feed_forward = (sub.part for sub in blueprint.encoder.layers[0])
    return {
        "vocab_size": blueprint.embeddings.tokens,
        "hidden_size": blueprint.width,
        "num_hidden_layers": len(blueprint.encoder.layers),
        "num_attention_heads": getattr(attention, "heads", None),
        "num_key_value_heads": getattr(attention, "kv_heads", None),
        "head_dim": getattr(attention, "head_width", None),
        "attention_bias": getattr(attention, "bias", None),
        "attention_dropout": getattr(attention, "dropout", None),
        "intermediate_size": getattr(feed_forward, "inner", None),
        "hidden_act": gpt2.spelled(getattr(feed_forward, "activation", "")),
        "mlp_bias": getattr(feed_forward, "bias", None),
        "rms_norm_eps": getattr(blueprint.encoder.final_norm, "eps", None),
        **written_rotary(getattr(attention, "positions", None)),
        "tie_word_embeddings": getattr(blueprint.heads.get("vocabulary"), "tied", False),
        **head_keys(blueprint.heads, *gpt2.LABEL_KEYS),
    }


BODY = (
    *layer_rules(
        "layers.{layer}",
        {
            "attention.part.query": "self_attn.q_proj",
            "attention.part.key": "self_attn.k_proj",
            "attention.part.value": "self_attn.v_proj",
            "attention.part.output": "self_attn.o_proj",
            "attention.norm": "input_layernorm",
            **{f"feed_forward.part.{name}": f"mlp.{name}_proj" for name in ("gate", "up", "down")},
            "feed_forward.norm": "post_attention_layernorm",
        },
    ),
    *rules(
        ("embeddings.tokens.weight", "embed_tokens.weight"),
        ("encoder.norm.weight", "norm.weight"),
    ),
)


def _size(layers: int, width: int, inner: int, **more: Any) -> dict[str, Any]:
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "intermediate_size": inner,
        "num_attention_heads": width // 128,
        "num_key_value_heads": width // 128,
        "vocab_size": 32_000,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 4096,
        **more,
    }


def _third(
    layers: int, width: int, inner: int, slower: float | None = None, **more: Any
) -> dict[str, Any]:
    """LLaMA 3: a large vocabulary; from 3.1 on slower turns, for texts sixteen times as long."""
    scaling = SlowerWhereSlow(factor=slower, low=1.0, high=4.0, length=8192) if slower else None
    return _size(
        layers,
        width,
        inner,
        num_key_value_heads=8,
        vocab_size=128_256,
        max_position_embeddings=131_072 if slower else 8192,
        **written_rotary(Rotary(theta=500_000.0, scaling=scaling)),
        **more,
    )


FAMILY = Family(
    model_type="llama",
    paper="Touvron et al. 2023",
    prefix="model.",
    base="LlamaModel",
    architectures={
        "LlamaModel": architecture(),
        "LlamaForCausalLM": architecture("vocabulary"),
        "LlamaForSequenceClassification": architecture("classes", rules=gpt2.CLASSES),
        "LlamaForTokenClassification": architecture(
            "tokens", rules=rules(("heads.tokens.project.{kind}", "score.{kind}"))
        ),
        # Compat: here the body goes by another name.
        "LlamaForQuestionAnswering": architecture(ANSWER_HEAD, prefix="transformer."),
    },
    body=BODY,
    head=gpt2.HEAD,
    ignored=("layers.{layer}.self_attn.rotary_emb.inv_freq",),
    size_notes={"llama-tiny": OWN},
    sizes={
        "llama-tiny": _size(
            2,
            128,
            344,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=2048,
        ),
        "llama-7b": _size(32, 4096, 11_008, max_position_embeddings=2048, rms_norm_eps=1e-6),
        "llama-2-7b": _size(32, 4096, 11_008),
        "llama-2-13b": _size(40, 5120, 13_824),
        "llama-2-70b": _size(80, 8192, 28_672, num_key_value_heads=8),
        "llama-3-8b": _third(32, 4096, 14_336),
        "llama-3-70b": _third(80, 8192, 28_672),
        "llama-3.1-8b": _third(32, 4096, 14_336, 8.0),
        "llama-3.1-70b": _third(80, 8192, 28_672, 8.0),
        "llama-3.2-1b": _third(
            16, 2048, 8192, 32.0, num_attention_heads=32, tie_word_embeddings=True
        ),
        "llama-3.2-3b": _third(28, 3072, 8192, 32.0, tie_word_embeddings=True),
    },
    # Compat: otherwise numbers of the published vocabulary are assumed, which others may not have.
    unstated=dict.fromkeys(("bos_token_id", "eos_token_id")),
    style=LLAMA_STYLE,
    read=read,
    write=write,
)
