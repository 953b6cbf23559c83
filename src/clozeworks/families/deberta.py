"""DeBERTa: BERT with disentangled attention, and absolute positions only where words are guessed.

Paper: He, Liu, Gao, Chen 2021.
The idea: content and relative position score each other in every layer, by one table of distances;
where a word stands in its text enters only before the vocabulary head (the mask decoder).
Where paper and code differ: the distance of the term from position to content is measured from the
query in code, from the key in the paper; the released code can also let heads talk, which no
published model does and this file refuses.
Compat: published folders hold the vocabulary head as `lm_predictions`, trained after the mask
decoder, and the decoder's positions inside the embeddings. Hugging Face computes the head alone
(`legacy` false), or one of another name (`legacy` true).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from clozeworks.core.attention.attention import SelfAttention
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads import HeadSpec
from clozeworks.core.heads.mask_decoder import NAME as DECODER
from clozeworks.core.heads.mask_decoder import MaskDecoder
from clozeworks.core.heads.pooled import Pooler
from clozeworks.core.layers.tower import Tower
from clozeworks.core.positions.disentangled import (
    Disentangled,
    DisentangledShared,
    DistanceTable,
    Term,
)
from clozeworks.families import bert
from clozeworks.families.family import (
    ANSWER_HEAD,
    CHOICE_HEAD,
    Config,
    Family,
    Parts,
    architecture,
    head_keys,
)
from clozeworks.families.weights import Form, Rule, rules
from clozeworks.text.tokenizer.styles import BertByteLevelStyle

TERMS: tuple[Term, ...] = ("c2p", "p2c")
# What the published library assumes where a config is silent.
DEFAULTS = {"vocab_size": 50265, "type_vocab_size": 0, "layer_norm_eps": 1e-7}


def read(config: Config, parts: Parts) -> Blueprint:
    """The blueprint of a config of the first version."""
    config.refuse("talking_head", [False], "heads that talk to each other are another attention")
    blueprint = plain(config, parts)
    terms = stated_terms(config)
    if not terms:
        return with_attention(blueprint, key_bias=False)
    span = farthest(config)
    positions = Disentangled(
        span=span, terms=terms, dropout=blueprint.embeddings.dropout, key_bias=False
    )
    return with_positions(blueprint, positions, DistanceTable(count=2 * span), key_bias=False)


def plain(config: Config, parts: Parts) -> Blueprint:
    """What both versions have in common: everything but what attention knows of positions."""
    config.own_positions("relative, as pos_att_type says")
    config = config.with_defaults(DEFAULTS)
    # These keys mean something to BERT alone.
    values = {**config, "is_decoder": None, "classifier_dropout": None}
    if not config.truth("legacy", True):
        values["tie_word_embeddings"] = True
    blueprint = bert.read(Config(values, config.source_location), parts - {"next_sentence"})
    width, embeddings = blueprint.width, blueprint.embeddings
    table = config.whole("embedding_size", width)
    at_input = config.truth("position_biased_input", True)
    return replace(
        blueprint,
        embeddings=replace(
            embeddings,
            width=None if table == width else table,
            positions=embeddings.positions if at_input else None,
            widen_first=table != width,
        ),
        pooler=_pooler(config, width) if "pooler" in parts else None,
        heads=_heads(config, parts, blueprint),
    )


def _pooler(config: Config, width: int) -> Pooler:
    if config.whole("pooler_hidden_size", width) != width:
        raise config.complaint(
            "pooler_hidden_size", f"it must be hidden_size, {width}; leave it out."
        )
    return Pooler(
        activation=config.activation("pooler_hidden_act"),
        dropout=config.probability("pooler_dropout", 0.0),
    )


def _heads(config: Config, parts: Parts, blueprint: Blueprint) -> dict[str, HeadSpec]:
    dropout = config.probability("cls_dropout", blueprint.embeddings.dropout)
    heads = bert.with_dropout(blueprint.heads, {"classes": dropout, CHOICE_HEAD: dropout})
    if DECODER not in parts:
        return heads
    if config.truth("position_biased_input", True):
        raise config.complaint(
            "position_biased_input",
            "a mask decoder adds absolute positions, and this model has them at its input; set it "
            "to false, or leave the decoder out.",
        )
    return {**heads, DECODER: MaskDecoder(count=config.whole("max_position_embeddings", 512))}


def stated_terms(config: Config) -> tuple[Term, ...]:
    """The terms a config asks for, in our order; none without relative attention."""
    names = config.get("pos_att_type") or []
    if isinstance(names, str):
        names = [name.strip() for name in names.lower().split("|")]
    if not isinstance(names, list) or any(name not in TERMS for name in names):
        raise config.complaint(
            "pos_att_type", "known are c2p and p2c, alone or as 'c2p|p2c'; correct it."
        )
    relative = config.truth("relative_attention", False)
    if bool(names) != relative:
        raise config.complaint(
            "pos_att_type",
            f"its terms are what relative attention adds, and relative_attention is {relative}; "
            + ("set it to 'c2p|p2c'." if relative else "set relative_attention to true."),
        )
    return tuple(term for term in TERMS if term in names)


def farthest(config: Config) -> int:
    """The longest distance that counts as such."""
    # Compat: below 1 it means as many as there are absolute positions.
    stated = config.above_zero("max_relative_positions")
    return stated or config.whole("max_position_embeddings", 512)


def with_positions(
    blueprint: Blueprint,
    positions: Disentangled | DisentangledShared,
    table: DistanceTable,
    **changes: Any,
) -> Blueprint:
    """The same blueprint with disentangled attention; the more terms, the smaller the scores."""
    attention = cast(SelfAttention, blueprint.encoder.layers[0][0].part)
    head_width = attention.head_width or blueprint.width // attention.heads
    scale = float((head_width * (1 + len(positions.terms))) ** -0.5)
    blueprint = replace(blueprint, encoder=replace(blueprint.encoder, positions=table))
    return with_attention(blueprint, positions=positions, scale=scale, **changes)


def with_attention(blueprint: Blueprint, **changes: Any) -> Blueprint:
    """The same blueprint with other settings of every attention."""
    layers = tuple(
        tuple(
            replace(sub, part=replace(sub.part, **changes))  # type: ignore[type-var]
            if isinstance(sub.part, SelfAttention)
            else sub
            for sub in layer
        )
        for layer in blueprint.encoder.layers
    )
    tower = replace(blueprint.encoder, layers=layers)
    return replace(blueprint, encoder=tower)


def write(blueprint: Blueprint) -> dict[str, Any]:
    """The config of a blueprint."""
    config = plain_config(blueprint)
    positions = _positions(blueprint)
    if isinstance(positions, Disentangled):
        config["max_relative_positions"] = positions.span
    return config


def _positions(blueprint: Blueprint) -> Any:
    return getattr(blueprint.encoder.layers[0][0].part, "positions", None)


def plain_config(blueprint: Blueprint) -> dict[str, Any]:
    """The keys that both versions have."""
    bare = Tower(layers=(blueprint.encoder.layers[0][:2],))
    config = bert.write(replace(blueprint, encoder=bare))
    embeddings, positions = blueprint.embeddings, _positions(blueprint)
    terms = list(getattr(positions, "terms", ()))
    config |= {
        "num_hidden_layers": len(blueprint.encoder.layers),
        "relative_attention": bool(terms),
        "pos_att_type": terms,
        "position_biased_input": embeddings.positions is not None,
    }
    if embeddings.positions is None:
        config.pop("max_position_embeddings")
    if decoder := blueprint.heads.get(DECODER):
        config["max_position_embeddings"] = getattr(decoder, "count", None)
        # What the decoder was trained with is the head that is not legacy.
        config["legacy"] = False
    if embeddings.width is not None:
        config["embedding_size"] = embeddings.width
    config.pop("classifier_dropout", None)
    config |= head_keys(
        blueprint.heads,
        ("cls_dropout", "classes", "dropout"),
        ("cls_dropout", CHOICE_HEAD, "dropout"),
    )
    if pooler := blueprint.pooler:
        config["pooler_hidden_act"] = bert.published_activation(pooler.activation)
        config["pooler_dropout"] = pooler.dropout
    return config


def forms(config: Config) -> tuple[Form, ...]:
    """Queries, keys and values of a head stand together in one matrix, head after head."""
    heads = config.whole("num_attention_heads", 12)

    def apart(tensor: Tensor) -> list[Tensor]:
        by_head = tensor.reshape(heads, 3, -1, tensor.shape[1])  # (H, 3, D, W)
        return [by_head[:, number].flatten(0, 1) for number in range(3)]

    def together(tensors: Sequence[Tensor]) -> Tensor:
        by_head = [each.reshape(heads, -1, each.shape[1]) for each in tensors]
        return torch.stack(by_head, 1).flatten(0, 2)

    return (Form("attention.self.in_proj.weight", ("query", "key", "value"), apart, together),)


_ATTENTION = "encoder.layer.{layer}.attention.self"
_OURS = "encoder.layers.{layer}.attention.part"

# Everything but attention is named as in BERT, in both versions.
AROUND = (
    *(rule for rule in bert.BODY if ".attention.self." not in rule.theirs),
    *rules(
        ("embeddings.project.weight", "embeddings.embed_proj.weight"),
        ("encoder.positions.table.weight", "encoder.rel_embeddings.weight"),
    ),
)
BODY = (
    *AROUND,
    *rules(
        *(
            (f"{_OURS}.{name}.weight", f"{_ATTENTION}.in_proj.weight:{name}")
            for name in ("query", "key", "value")
        ),
        # The same as a whole: in a file it goes by this name.
        (f"{_OURS}.query_key_value.weight", f"{_ATTENTION}.in_proj.weight"),
        (f"{_OURS}.query.bias", f"{_ATTENTION}.q_bias"),
        (f"{_OURS}.value.bias", f"{_ATTENTION}.v_bias"),
        (f"{_OURS}.positions.key.weight", f"{_ATTENTION}.pos_proj.weight"),
        (f"{_OURS}.positions.query.{{kind}}", f"{_ATTENTION}.pos_q_proj.{{kind}}"),
    ),
)

CLASSES = (*bert.POOLER, *bert.CLASSES)
_LEGACY = tuple(rule for rule in bert.HEAD if ".vocabulary." in rule.ours)
_MODERN = rules(
    ("heads.vocabulary.dense.{kind}", "lm_predictions.lm_head.dense.{kind}"),
    ("heads.vocabulary.norm.{kind}", "lm_predictions.lm_head.LayerNorm.{kind}"),
    ("heads.vocabulary.decoder.bias", "lm_predictions.lm_head.bias"),
)
_POSITIONS = rules(
    ("heads.mask_decoder.positions.table.weight", "deberta.embeddings.position_embeddings.weight")
)


def spellings(config: Config) -> tuple[Rule, ...]:
    """The vocabulary head by either name; the one the config means is written.

    Absolute positions that are not added at the input are the mask decoder's.
    """
    names = (*_LEGACY, *_MODERN) if config.truth("legacy", True) else (*_MODERN, *_LEGACY)
    return names if config.truth("position_biased_input", True) else (*_POSITIONS, *names)


_size = partial(
    bert.size,
    vocab=50265,
    type_vocab_size=0,
    relative_attention=True,
    pos_att_type=["c2p", "p2c"],
    position_biased_input=False,
    layer_norm_eps=1e-7,
)


FAMILY = Family(
    model_type="deberta",
    paper="He et al. 2021",
    prefix="deberta.",
    base="DebertaModel",
    architectures={
        "DebertaModel": architecture(),
        "DebertaForMaskedLM": architecture("vocabulary"),
        "DebertaForSequenceClassification": architecture("pooler", "classes", rules=CLASSES),
        "DebertaForTokenClassification": architecture("tokens", rules=bert.TOKENS),
        "DebertaForQuestionAnswering": architecture(ANSWER_HEAD),
    },
    body=BODY,
    head=bert.ANSWER,
    ignored=bert.FAMILY.ignored,
    spellings=spellings,
    forms=forms,
    extras=frozenset({DECODER}),
    sizes={
        "deberta-base": _size(12, 768),
        "deberta-large": _size(24, 1024),
        "deberta-xlarge": _size(48, 1024),
    },
    style=BertByteLevelStyle(),
    read=read,
    write=write,
)
