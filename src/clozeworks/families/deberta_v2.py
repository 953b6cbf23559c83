"""DeBERTa v2 and v3: distances in buckets, projections shared, a larger vocabulary.

Paper: He, Liu, Gao, Chen 2021 (v2, in the released code and the paper's appendix); He, Gao, Chen
2023 (v3: the same network, trained to find replaced tokens; `objectives/replaced_tokens.py`).
The idea: far distances share their rows, a layer's own query and key matrices project the table of
distances, and the largest sizes of v2 hear direct neighbours through one convolution.
Where paper and code differ: see `core/positions/disentangled.py`.
This file states only what differs from the first version.
"""

from dataclasses import replace
from functools import partial
from typing import Any, cast

from clozeworks.core.attention.attention import SelfAttention
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads.replaced import ReplacedInText
from clozeworks.core.layers.convolution import Convolution
from clozeworks.core.layers.norm import LayerNorm
from clozeworks.core.layers.sublayer import PostNorm
from clozeworks.core.layers.tower import Tower
from clozeworks.core.positions.disentangled import Disentangled, DisentangledShared, DistanceTable
from clozeworks.families import bert, deberta
from clozeworks.families.family import ANSWER_HEAD, CHOICE_HEAD, Config, Family, Parts, architecture
from clozeworks.families.weights import layer_rules, rules
from clozeworks.text.tokenizer.special import BERT_TOKENS
from clozeworks.text.tokenizer.styles import UnigramStyle

# What the published library assumes where a config is silent: the largest sizes of v2.
DEFAULTS = {
    "vocab_size": 128_100,
    "hidden_size": 1536,
    "num_hidden_layers": 24,
    "num_attention_heads": 24,
    "intermediate_size": 6144,
}
NORMED = "layer_norm"
REPLACED = "replaced"


def read(config: Config, parts: Parts) -> Blueprint:
    """The blueprint of a config."""
    config = config.with_defaults(DEFAULTS)
    blueprint = deberta.plain(config, parts)
    attention = cast(SelfAttention, blueprint.encoder.layers[0][0].part)
    head_width = blueprint.width // attention.heads
    if config.whole("attention_head_size", head_width) != head_width:
        raise config.complaint(
            "attention_head_size",
            f"it must be hidden_size divided by num_attention_heads, {head_width}; leave it out.",
        )
    blueprint = _with_positions(config, blueprint)
    heads = dict(blueprint.heads)
    if REPLACED in parts:
        norm = blueprint.embeddings.norm or LayerNorm()
        heads[REPLACED] = ReplacedInText(norm=norm, activation=config.activation("hidden_act"))
    return replace(blueprint, encoder=_with_convolution(config, blueprint), heads=heads)


def _with_positions(config: Config, blueprint: Blueprint) -> Blueprint:
    terms = deberta.stated_terms(config)
    if not terms:
        return blueprint
    farthest = deberta.farthest(config)
    span = _buckets(config, farthest)
    settings: dict[str, Any] = {
        "span": span or farthest,
        "farthest": farthest if span else None,
        "terms": terms,
        "dropout": blueprint.embeddings.dropout,
    }
    shared = config.truth("share_att_key", False)
    positions = DisentangledShared(**settings) if shared else Disentangled(**settings)
    table = DistanceTable(
        count=2 * positions.span, norm=blueprint.embeddings.norm if _normed(config) else None
    )
    return deberta.with_positions(blueprint, positions, table)


def _buckets(config: Config, farthest: int) -> int | None:
    """How many buckets there are on each side; None where every distance has its own row."""
    count = config.above_zero("position_buckets", minimum=2)
    if count and farthest - 1 <= count // 2:
        raise config.complaint(
            "position_buckets",
            f"half of them must be fewer than the distances, of which there are {farthest}; lower "
            "it, or raise max_relative_positions.",
        )
    return count


def _normed(config: Config) -> bool:
    stated = config.get("norm_rel_ebd") or "none"
    names = [name.strip() for name in str(stated).lower().split("|")]
    if any(name not in ("none", NORMED) for name in names):
        raise config.complaint("norm_rel_ebd", f"known are none and {NORMED}; correct it.")
    return NORMED in names


def _with_convolution(config: Config, blueprint: Blueprint) -> Tower:
    """The tower, its first layer with a convolution after it where a config asks for one."""
    size = config.whole("conv_kernel_size", 0, minimum=0)
    if not size:
        return blueprint.encoder
    groups = config.whole("conv_groups", 1)
    if size % 2 == 0:
        raise config.complaint("conv_kernel_size", "it must be odd, or 0 for none; correct it.")
    if blueprint.width % groups:
        raise config.complaint("conv_groups", f"it must divide hidden_size, {blueprint.width}.")
    heard = Convolution(
        size=size,
        groups=groups,
        activation=config.activation("conv_act", "tanh"),
        dropout=blueprint.embeddings.dropout,
    )
    norm = blueprint.embeddings.norm or LayerNorm()
    first, *others = blueprint.encoder.layers
    layers = ((*first, PostNorm(part=heard, norm=norm)), *others)
    return replace(blueprint.encoder, layers=layers)


def write(blueprint: Blueprint) -> dict[str, Any]:
    """The config of a blueprint."""
    config = deberta.plain_config(blueprint)
    if REPLACED in blueprint.heads:
        # Compat: it was published beside the vocabulary head that is not legacy.
        config["legacy"] = False
    first = blueprint.encoder.layers[0]
    positions = getattr(first[0].part, "positions", None)
    if isinstance(positions, Disentangled | DisentangledShared):
        normed = getattr(blueprint.encoder.positions, "norm", None) is not None
        config |= {
            "max_relative_positions": positions.farthest or positions.span,
            "position_buckets": positions.span if positions.farthest else -1,
            "share_att_key": isinstance(positions, DisentangledShared),
            "norm_rel_ebd": NORMED if normed else "none",
        }
    if len(first) > 2 and isinstance(heard := first[2].part, Convolution):
        config |= {
            "conv_kernel_size": heard.size,
            "conv_groups": heard.groups,
            "conv_act": bert.published_activation(heard.activation),
        }
    return config


BODY = (
    *deberta.AROUND,
    *layer_rules(
        "encoder.layer.{layer}.attention.self",
        {
            **{f"attention.part.{name}": f"{name}_proj" for name in ("query", "key", "value")},
            "attention.part.positions.query": "pos_query_proj",
            "attention.part.positions.key": "pos_key_proj",
        },
    ),
    *rules(
        ("encoder.positions.norm.{kind}", "encoder.LayerNorm.{kind}"),
        ("encoder.layers.0.convolution.part.inner.{kind}", "encoder.conv.conv.{kind}"),
        ("encoder.layers.0.convolution.norm.{kind}", "encoder.conv.LayerNorm.{kind}"),
    ),
)

# What tells which tokens were replaced: kept, though no published class has it.
HEAD = rules(
    ("heads.replaced.norm.{kind}", "mask_predictions.LayerNorm.{kind}"),
    ("heads.replaced.dense.{kind}", "mask_predictions.dense.{kind}"),
    ("heads.replaced.score.{kind}", "mask_predictions.classifier.{kind}"),
)


_size = partial(
    bert.size,
    vocab=128_100,
    type_vocab_size=0,
    relative_attention=True,
    max_relative_positions=512,
    position_buckets=256,
    pos_att_type=["c2p", "p2c"],
    share_att_key=True,
    norm_rel_ebd=NORMED,
    position_biased_input=False,
    layer_norm_eps=1e-7,
)
_CONVOLUTION: dict[str, Any] = {"conv_kernel_size": 3, "conv_act": "gelu"}

FAMILY = Family(
    model_type="deberta-v2",
    paper="He et al. 2021, 2023",
    prefix="deberta.",
    base="DebertaV2Model",
    architectures={
        "DebertaV2Model": architecture(),
        "DebertaV2ForMaskedLM": architecture("vocabulary"),
        "DebertaV2ForSequenceClassification": architecture(
            "pooler", "classes", rules=deberta.CLASSES
        ),
        "DebertaV2ForTokenClassification": architecture("tokens", rules=bert.TOKENS),
        "DebertaV2ForQuestionAnswering": architecture(ANSWER_HEAD),
        "DebertaV2ForMultipleChoice": architecture(
            "pooler", CHOICE_HEAD, rules=(*bert.POOLER, *bert.CHOICE)
        ),
    },
    body=BODY,
    head=(*HEAD, *bert.ANSWER),
    ignored=bert.FAMILY.ignored,
    spellings=deberta.spellings,
    extras=deberta.FAMILY.extras | {REPLACED},
    sizes={
        "deberta-v3-base": _size(12, 768),
        "deberta-v3-xsmall": _size(12, 384),
        "deberta-v3-small": _size(6, 768),
        "deberta-v3-large": _size(24, 1024),
        "mdeberta-v3-base": _size(12, 768, vocab=251_000),
        "deberta-v2-xlarge": _size(24, 1536, **_CONVOLUTION),
        "deberta-v2-xxlarge": _size(48, 1536, **_CONVOLUTION),
    },
    style=UnigramStyle(special=BERT_TOKENS),
    read=read,
    write=write,
)
