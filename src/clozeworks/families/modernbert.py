"""ModernBERT: a deep and narrow encoder for long texts, most of whose layers look nearby only.

Paper: Warner et al. 2024.
The idea: what language models learned since BERT, in an encoder: rotary positions, norms before the
parts, gated feed-forward, no biases. Every third layer sees the whole text, the others a window, so
a text twice as long costs little more than twice as much in most layers.
Where paper and code differ: the first layer has no norm before its attention, because one stands
after the embeddings already. `local_attention` is the width of the whole window: 128 is 64
positions to each side, and the token itself.
Compat: configs before transformers 5 state `global_attn_every_n_layers`, `global_rope_theta` and
`local_rope_theta`; newer ones `layer_types` and `rope_parameters`. Both are read, the newer ones
are written.
Trap: `max_position_embeddings` is how long texts were in training. Nothing ends there: rotary
positions go on, and a longer text is computed like any other.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from clozeworks.core.attention.attention import SelfAttention
from clozeworks.core.attention.masks import Full, MaskSpec, Window
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads import HeadSpec
from clozeworks.core.heads.transformed import TransformedTextClasses, TransformedTokenClasses
from clozeworks.core.heads.vocabulary import Vocabulary
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layers.feed_forward import GatedMlp
from clozeworks.core.layers.norm import LayerNorm
from clozeworks.core.layers.sublayer import PreNorm, Residual
from clozeworks.core.layers.tower import Layer, Tower
from clozeworks.core.positions.rotary import Rotary
from clozeworks.errors import CheckpointError
from clozeworks.families.bert import published_activation
from clozeworks.families.family import (
    ANSWER_HEAD,
    CHOICE_HEAD,
    FULL,
    LOCAL,
    OWN,
    Config,
    Family,
    Parts,
    architecture,
    head_keys,
)
from clozeworks.families.weights import layer_rules, rules, stacked
from clozeworks.text.tokenizer.styles import BertByteLevelStyle

# Each type of layer: the older key of its theta, and what is assumed where a config is silent.
THETAS = {FULL: ("global_rope_theta", 160_000.0), LOCAL: ("local_rope_theta", 10_000.0)}
POOLINGS: dict[str, Literal["first", "mean"]] = {"cls": "first", "mean": "mean"}


def read(config: Config, parts: Parts) -> Blueprint:
    """The blueprint of a ModernBERT config."""
    config.own_positions("rotary", "rotary", "sans_pos")
    norm = LayerNorm(eps=config.number("norm_eps", 1e-5), bias=config.truth("norm_bias", False))
    width = config.whole("hidden_size", 768)
    return Blueprint(
        width=width,
        embeddings=Embeddings(
            tokens=config.whole("vocab_size", 50_368),
            norm=norm,
            dropout=config.probability("embedding_dropout", 0.0),
        ),
        encoder=Tower(layers=_layers(config, width, norm), final_norm=norm),
        heads=_heads(config, parts, norm),
    )


def _layer_types(config: Config) -> Sequence[str]:
    depth = config.depth("num_hidden_layers", 22)
    every = config.whole("global_attn_every_n_layers", 3)
    return config.layer_types([LOCAL if layer % every else FULL for layer in range(depth)])


def _layers(config: Config, width: int, norm: LayerNorm) -> tuple[Layer, ...]:
    types = _layer_types(config)
    heads = config.heads("num_attention_heads", 12, "hidden_size", width)
    if width // heads % 2:
        raise CheckpointError(
            f"{config.source_location}: hidden_size is {width} and num_attention_heads is {heads}, "
            f"so a head is {width // heads} wide; rotary positions turn pairs of numbers, so it "
            f"must be even; change one of them."
        )
    dropout = config.probability("attention_dropout", 0.0)
    reach = config.whole("local_attention", 128) // 2
    masks: dict[str, MaskSpec] = {FULL: Full(), LOCAL: Window(reach=reach)}
    attentions = {
        kind: SelfAttention(
            heads=heads,
            mask=masks[kind],
            positions=Rotary(theta=_theta(config, kind)),
            dropout=dropout,
            bias=config.truth("attention_bias", False),
        )
        for kind in set(types)
    }
    feed_forward = PreNorm(
        part=GatedMlp(
            inner=config.whole("intermediate_size", 1152),
            activation=config.activation("hidden_activation"),
            bias=config.truth("mlp_bias", False),
            dropout=config.probability("mlp_dropout", 0.0),
        ),
        norm=norm,
    )
    # Compat: one dropout serves the attention's weights and its output.
    first = Residual(part=attentions[types[0]], dropout=dropout)
    others = (PreNorm(part=attentions[kind], norm=norm, dropout=dropout) for kind in types[1:])
    return ((first, feed_forward), *((attention, feed_forward) for attention in others))


def _theta(config: Config, kind: str) -> float:
    """How slowly the positions of a type of layer turn, in the newer spelling or the older one."""
    older, usual = THETAS[kind]
    tables: Any = config.get("rope_parameters")
    if tables is not None and not isinstance(tables, Mapping):
        raise config.complaint(
            "rope_parameters", "it must be a table by type of layer; correct it."
        )
    stated: Any = (tables or {}).get(kind)
    for key, table in (
        ("rope_scaling", config.get("rope_scaling")),
        (f"rope_parameters.{kind}", stated),
    ):
        if table is not None and not isinstance(table, Mapping):
            raise config.complaint(key, "it must be a table; correct it.", table)
        scheme = (table or {}).get("rope_type", (table or {}).get("type", "default"))
        if scheme != "default":
            rule = "scaled positions are another model; Clozeworks computes only 'default'."
            raise config.complaint(f"{key}.rope_type", rule, scheme)
    theta, key = (stated or {}).get("rope_theta"), f"rope_parameters.{kind}.rope_theta"
    if theta is None:
        theta, key = config.get(older, usual), older
    if type(theta) not in (int, float) or not 0 < theta < float("inf"):
        raise config.complaint(key, "it must be a number above 0; correct it.", theta)
    return float(theta)


def _heads(config: Config, parts: Parts, norm: LayerNorm) -> dict[str, HeadSpec]:
    shared: dict[str, Any] = {
        "norm": norm,
        "activation": config.activation("classifier_activation"),
        "bias": config.truth("classifier_bias", False),
    }
    dropout = config.probability("classifier_dropout", 0.0)
    pooling = config.one_of("classifier_pooling", POOLINGS, "cls")
    labels = {"count": config.classes(), "dropout": dropout, **shared}
    possible: dict[str, HeadSpec] = {
        "vocabulary": Vocabulary(
            tied=config.truth("tie_word_embeddings", True),
            decoder_bias=config.truth("decoder_bias", True),
            **shared,
        ),
        "classes": TransformedTextClasses(pooling=pooling, **labels),
        CHOICE_HEAD: TransformedTextClasses(pooling=pooling, **{**labels, "count": 1}),
        "tokens": TransformedTokenClasses(**labels),
        ANSWER_HEAD: TransformedTokenClasses(count=2, dropout=dropout, **shared),
    }
    return {name: head for name, head in possible.items() if name in parts}


def write(blueprint: Blueprint) -> dict[str, Any]:
    """The config of a ModernBERT blueprint."""
    embeddings, layers = blueprint.embeddings, blueprint.encoder.layers
    attentions = [layer[0].part for layer in layers]
    types = [LOCAL if isinstance(getattr(a, "mask", None), Window) else FULL for a in attentions]
    one_of = dict(zip(reversed(types), reversed(attentions), strict=True))  # the first of each type
    first, feed_forward = attentions[0], layers[0][1].part
    config = {
        "vocab_size": embeddings.tokens,
        "hidden_size": blueprint.width,
        "num_hidden_layers": len(layers),
        "num_attention_heads": getattr(first, "heads", None),
        "intermediate_size": getattr(feed_forward, "inner", None),
        "hidden_activation": published_activation(getattr(feed_forward, "activation", "gelu")),
        "norm_eps": getattr(embeddings.norm, "eps", None),
        "norm_bias": getattr(embeddings.norm, "bias", None),
        "embedding_dropout": embeddings.dropout,
        "attention_bias": getattr(first, "bias", None),
        "attention_dropout": getattr(first, "dropout", None),
        "mlp_bias": getattr(feed_forward, "bias", None),
        "mlp_dropout": getattr(feed_forward, "dropout", None),
        "layer_types": types,
        "rope_parameters": {
            kind: {
                "rope_type": "default",
                "rope_theta": getattr(getattr(attention, "positions", None), "theta", None),
            }
            for kind, attention in sorted(one_of.items())
        },
    }
    if LOCAL in one_of:
        config["local_attention"] = 2 * getattr(getattr(one_of[LOCAL], "mask", None), "reach", 0)
    for name, head in blueprint.heads.items():
        activation = getattr(head, "activation", "gelu")
        config["classifier_activation"] = published_activation(activation)
        config["classifier_bias"] = getattr(head, "bias", None)
        if name != "vocabulary":
            config["classifier_dropout"] = getattr(head, "dropout", None)
        if isinstance(head, TransformedTextClasses):
            config["classifier_pooling"] = {"first": "cls"}.get(head.pooling, head.pooling)
    return config | head_keys(
        blueprint.heads,
        ("tie_word_embeddings", "vocabulary", "tied"),
        ("decoder_bias", "vocabulary", "decoder_bias"),
        ("num_labels", "classes", "count"),
        ("num_labels", "tokens", "count"),
    )


# What is one weight in a file and several here.
# Trap: the published code calls the half without an activation the gate; here it is the other one.
_JOINT = {
    ("attention", "attn.Wqkv"): ("query", "key", "value"),
    ("feed_forward", "mlp.Wi"): ("gate", "up"),
}
FORMS = tuple(
    stacked(f".{theirs}.{kind}", *pieces)
    for kind in ("weight", "bias")
    for (_, theirs), pieces in _JOINT.items()
)
BODY = (
    *rules(
        ("embeddings.tokens.weight", "embeddings.tok_embeddings.weight"),
        ("embeddings.norm.{kind}", "embeddings.norm.{kind}"),
        ("encoder.norm.{kind}", "final_norm.{kind}"),
        *(
            (
                f"encoder.layers.{{layer}}.{ours}.part.{piece}.{{kind}}",
                f"layers.{{layer}}.{theirs}.{{kind}}:{piece}",
            )
            for (ours, theirs), pieces in _JOINT.items()
            for piece in pieces
        ),
    ),
    *layer_rules(
        "layers.{layer}",
        {
            "attention.part.output": "attn.Wo",
            "attention.norm": "attn_norm",
            "feed_forward.part.down": "mlp.Wo",
            "feed_forward.norm": "mlp_norm",
            # A joint weight has a name here, too, so that every name in a published file can be
            # translated; none of ours goes by it.
            **{f"{ours}.part.joint": theirs for ours, theirs in _JOINT},
        },
    ),
)


VOCABULARY = rules(
    ("heads.vocabulary.dense.{kind}", "head.dense.{kind}"),
    ("heads.vocabulary.norm.{kind}", "head.norm.{kind}"),
    ("heads.vocabulary.decoder.{kind}", "decoder.{kind}"),
)
CLASSES, CHOICE, TOKENS, ANSWER = (
    rules(
        (f"heads.{name}.dense.{{kind}}", "head.dense.{kind}"),
        (f"heads.{name}.norm.{{kind}}", "head.norm.{kind}"),
        (f"heads.{name}.project.{{kind}}", "classifier.{kind}"),
    )
    for name in ("classes.classes", "choice.classes", "tokens", ANSWER_HEAD)
)


def _size(layers: int, width: int, inner: int) -> dict[str, Any]:
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": width // 64,
        "intermediate_size": inner,
        "vocab_size": 50_368,
        "max_position_embeddings": 8192,
    }


FAMILY = Family(
    model_type="modernbert",
    paper="Warner et al. 2024",
    prefix="model.",
    base="ModernBertModel",
    architectures={
        "ModernBertModel": architecture(),
        "ModernBertForMaskedLM": architecture("vocabulary", rules=VOCABULARY),
        "ModernBertForSequenceClassification": architecture("classes", rules=CLASSES),
        "ModernBertForTokenClassification": architecture("tokens", rules=TOKENS),
        "ModernBertForQuestionAnswering": architecture(ANSWER_HEAD, rules=ANSWER),
        "ModernBertForMultipleChoice": architecture(CHOICE_HEAD, rules=CHOICE),
    },
    body=BODY,
    head=(),
    forms=lambda config: FORMS,
    size_notes={"modernbert-tiny": OWN},
    sizes={
        # Every third layer sees the whole text.
        "modernbert-tiny": _size(3, 128, 192),
        "modernbert-base": _size(22, 768, 1152),
        "modernbert-large": _size(28, 1024, 2624),
    },
    # Compat: otherwise numbers of the published vocabulary are assumed, which others may not have.
    unstated=dict.fromkeys(f"{token}_token_id" for token in ("pad", "bos", "eos", "cls", "sep")),
    style=BertByteLevelStyle(),
    read=read,
    write=write,
)
