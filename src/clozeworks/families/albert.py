"""ALBERT: BERT with a narrow token table and one layer that runs many times.

Paper: Lan, Chen, Goodman, Gimpel, Sharma, Soricut 2020.
The idea: token vectors need less room than meanings in context, so the table is narrow and one
projection widens it; and all layers share their weights. Base has about a tenth of
BERT's parameters.
Trap: sharing saves memory, not time: every layer is still computed. The paper's table 4 has it cost
1.5 points on average at this table width, nearly all of them by the shared feed-forward.
Where paper and code differ: the released code leaves the projection out where both widths are
equal, Hugging Face's never does, and checkpoints follow it. While training, Hugging Face drops
nothing after the feed-forward and something before the sentence-order head; the released code does
the opposite, and this file does as the code that trained the checkpoints. Without dropout, as v2
was trained, they are the same.
Trap: the released configs say `gelu` and mean its tanh approximation, `gelu_new` in this layout.
Compat: the sentence-order head has as many classes as `num_labels` says, which is 2 unless a config
states another number.
This file states only what differs from BERT.
"""

from dataclasses import replace
from typing import Any

from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads.pooled import PooledClasses
from clozeworks.core.layers.tower import Tower
from clozeworks.errors import CheckpointError
from clozeworks.families import bert
from clozeworks.families.family import (
    ANSWER_HEAD,
    CHOICE_HEAD,
    MAX_DEPTH,
    Config,
    Family,
    Parts,
    architecture,
)
from clozeworks.families.weights import Rule, layer_rules, rules
from clozeworks.text.tokenizer.styles import UnigramStyle

# What the published library assumes where a config is silent: the largest size.
DEFAULTS = {
    "vocab_size": 30_000,
    "hidden_size": 4096,
    "num_attention_heads": 64,
    "intermediate_size": 16384,
    "hidden_act": "gelu_new",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def read(config: Config, parts: Parts) -> Blueprint:
    """The blueprint of an ALBERT config."""
    if config.get("embedding_size") is None:
        raise CheckpointError(
            f"{config.source_location}: embedding_size is missing; ALBERT's token table has a "
            f"width of its own; state it (128 in every published size)."
        )
    config = config.with_defaults(DEFAULTS)
    blueprint = bert.read(config, parts)
    dropout = config.probability("classifier_dropout_prob", 0.1)
    names = ("next_sentence", "classes", "tokens", CHOICE_HEAD)
    heads = bert.with_dropout(blueprint.heads, dict.fromkeys(names, dropout))
    if "sentence_order" in parts:
        heads["sentence_order"] = PooledClasses(count=config.classes())
    return replace(
        blueprint,
        embeddings=replace(blueprint.embeddings, width=config.whole("embedding_size", 128)),
        encoder=_shared(config, blueprint.encoder),
        heads=heads,
    )


def _shared(config: Config, unshared: Tower) -> Tower:
    """The tower of groups: equal shares of the layers, each with the weights of one group."""
    depth = len(unshared.layers)
    groups = config.depth("num_hidden_groups", 1)
    blocks = config.depth("inner_group_num", 1)
    if depth % groups:
        raise CheckpointError(
            f"{config.source_location}: num_hidden_layers is {depth} and num_hidden_groups is "
            f"{groups}; the first must be divisible by the second; change one of them."
        )
    if depth * blocks > MAX_DEPTH:
        rule = f"times num_hidden_layers it must be at most {MAX_DEPTH:,}; correct it."
        raise config.complaint("inner_group_num", rule)
    order = tuple(layer // (depth // groups) for layer in range(depth))
    return Tower(
        layers=(unshared.layers[0] * blocks,) * groups,
        order=order if groups < depth else None,
    )


def write(blueprint: Blueprint) -> dict[str, Any]:
    """The config of an ALBERT blueprint."""
    tower = blueprint.encoder
    group = tower.layers[0]
    config = bert.write(replace(blueprint, encoder=Tower(layers=(group[:2],))))
    if "classifier_dropout" in config:
        config["classifier_dropout_prob"] = config.pop("classifier_dropout")
    if head := blueprint.heads.get("sentence_order"):
        config["num_labels"] = getattr(head, "count", None)
    activation = config["hidden_act"]
    return {
        **config,
        "embedding_size": blueprint.embeddings.width or blueprint.width,
        "num_hidden_layers": len(tower.running_order()),
        "num_hidden_groups": len(tower.layers),
        "inner_group_num": len(group) // 2,
        # Compat: the same function under the name that ALBERT's configs give it.
        "hidden_act": "gelu_new" if activation == "gelu_pytorch_tanh" else activation,
    }


# One block: our name, with a hole for the block's number, and the published one.
_BLOCK = (
    ("attention{number}.part.query", "attention.query"),
    ("attention{number}.part.key", "attention.key"),
    ("attention{number}.part.value", "attention.value"),
    ("attention{number}.part.output", "attention.dense"),
    ("attention{number}.norm", "attention.LayerNorm"),
    ("feed_forward{number}.part.up", "ffn"),
    ("feed_forward{number}.part.down", "ffn_output"),
    ("feed_forward{number}.norm", "full_layer_layer_norm"),
)

# The first block of a group goes by the plain names; the table is read from the top.
_FIRST, _OTHERS = (
    layer_rules(
        f"encoder.albert_layer_groups.{{layer}}.albert_layers.{block}",
        {ours.format(number=number): theirs for ours, theirs in _BLOCK},
    )
    for number, block in (("", "0"), ("_{block}", "{block}"))
)
BODY = (
    *bert.EMBEDDINGS,
    *_FIRST,
    *_OTHERS,
    *rules(
        ("embeddings.widen.{kind}", "encoder.embedding_hidden_mapping_in.{kind}"),
        ("pooler.dense.{kind}", "pooler.{kind}"),
    ),
)

HEAD = (
    *rules(
        ("heads.vocabulary.dense.{kind}", "predictions.dense.{kind}"),
        ("heads.vocabulary.norm.{kind}", "predictions.LayerNorm.{kind}"),
        ("heads.vocabulary.decoder.weight", "predictions.decoder.weight"),
        ("heads.vocabulary.decoder.bias", "predictions.bias"),
        ("heads.sentence_order.project.{kind}", "sop_classifier.classifier.{kind}"),
    ),
    # Compat: as in BERT, a second bias counts where nothing is tied.
    Rule("heads.vocabulary.decoder.bias", "predictions.decoder.bias", second=True),
    *bert.ANSWER,
)


def _size(layers: int, width: int, heads: int, dropout: float) -> dict[str, Any]:
    return {
        "num_hidden_layers": layers,
        "num_hidden_groups": 1,
        "inner_group_num": 1,
        "embedding_size": 128,
        "hidden_size": width,
        "num_attention_heads": heads,
        "intermediate_size": width * 4,
        "hidden_act": "gelu_new",
        "hidden_dropout_prob": dropout,
        "attention_probs_dropout_prob": dropout,
        "classifier_dropout_prob": 0.1,
        "vocab_size": 30_000,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
    }


FAMILY = Family(
    model_type="albert",
    paper="Lan et al. 2020",
    prefix="albert.",
    base="AlbertModel",
    architectures={
        "AlbertModel": architecture("pooler"),
        "AlbertForPreTraining": architecture("pooler", "vocabulary", "sentence_order"),
        "AlbertForMaskedLM": architecture("vocabulary"),
        "AlbertForSequenceClassification": architecture("pooler", "classes", rules=bert.CLASSES),
        "AlbertForTokenClassification": architecture("tokens", rules=bert.TOKENS),
        "AlbertForQuestionAnswering": architecture(ANSWER_HEAD),
        "AlbertForMultipleChoice": architecture("pooler", CHOICE_HEAD, rules=bert.CHOICE),
    },
    body=BODY,
    head=HEAD,
    ignored=bert.FAMILY.ignored,
    # Version 2 is the same network, trained longer, on more text and without dropout.
    sizes={
        "albert-base-v1": _size(12, 768, 12, dropout=0.1),
        "albert-base-v2": _size(12, 768, 12, dropout=0.0),
        "albert-large-v1": _size(24, 1024, 16, dropout=0.1),
        "albert-large-v2": _size(24, 1024, 16, dropout=0.0),
        "albert-xlarge-v1": _size(24, 2048, 16, dropout=0.1),
        "albert-xlarge-v2": _size(24, 2048, 16, dropout=0.0),
        "albert-xxlarge-v1": _size(12, 4096, 64, dropout=0.0),
        "albert-xxlarge-v2": _size(12, 4096, 64, dropout=0.0),
    },
    style=UnigramStyle(),
    read=read,
    write=write,
)
