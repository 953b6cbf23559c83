"""ELECTRA: a network that tells which tokens were replaced, and the small one that replaces them.

Paper: Clark, Luong, Le, Manning 2020.
The idea: a generator fills gaps as BERT does, and a discriminator says of every token whether it is
the one that was written. The discriminator is what is used afterwards.
Both are BERT's network with token vectors of a width of their own; a published folder holds one of
them. This file states only what differs from BERT.
Where paper and code differ: the paper's small generator has a quarter of the discriminator's width,
the published one has all of it (as its authors say); the large one of the paper learned with 25 %
of the tokens hidden.
"""

from dataclasses import replace
from typing import Any

from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads.pooled import Pooler
from clozeworks.core.heads.replaced import Replaced
from clozeworks.families import bert, roberta
from clozeworks.families.family import (
    ANSWER_HEAD,
    CHOICE_HEAD,
    Config,
    Family,
    Parts,
    architecture,
    head_keys,
)
from clozeworks.families.weights import rules
from clozeworks.text.tokenizer.styles import WordPieceStyle

# What a config without these keys means; the others mean what they mean for BERT.
DEFAULTS = {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024}


def read(config: Config, parts: Parts) -> Blueprint:
    """The blueprint of an ELECTRA config."""
    config = config.with_defaults(DEFAULTS)
    blueprint = bert.read(config, parts)
    table_width = config.whole("embedding_size", 128)
    heads = roberta.exact_gelu(blueprint.heads)
    if "replaced" in parts:
        heads["replaced"] = Replaced(activation=config.activation("hidden_act"))
    choice_dropout = config.probability("summary_last_dropout", 0.1)
    return replace(
        blueprint,
        embeddings=replace(
            blueprint.embeddings, width=None if table_width == blueprint.width else table_width
        ),
        pooler=_pooler(config, parts, blueprint.embeddings.dropout) if "pooler" in parts else None,
        heads=bert.with_dropout(heads, {CHOICE_HEAD: choice_dropout}),
    )


def _pooler(config: Config, parts: Parts, dropout: float) -> Pooler:
    """The vector of a text that classes are read from, or choices."""
    if CHOICE_HEAD in parts and "classes" not in parts:
        config.refuse("summary_type", ["first"], "another token would speak for its text")
        config.refuse("summary_use_proj", [True], "the summary would have no layer of its own")
        return Pooler(activation=config.activation("summary_activation"))
    # Compat: the exact GELU, whatever hidden_act says; BERT has tanh.
    return Pooler(activation="gelu", dropout=config.probability("classifier_dropout", dropout))


def write(blueprint: Blueprint) -> dict[str, Any]:
    """The config of an ELECTRA blueprint."""
    width = blueprint.embeddings.width or blueprint.width
    config = {**bert.write(blueprint), "embedding_size": width}
    if CHOICE_HEAD in blueprint.heads and "classes" not in blueprint.heads:
        del config["classifier_dropout"]
        config["summary_activation"] = bert.published_activation(
            getattr(blueprint.pooler, "activation", "gelu")
        )
    return config | head_keys(blueprint.heads, ("summary_last_dropout", CHOICE_HEAD, "dropout"))


BODY = (*bert.BODY, *rules(("embeddings.widen.{kind}", "embeddings_project.{kind}")))

HEAD = (
    *rules(
        ("heads.replaced.dense.{kind}", "discriminator_predictions.dense.{kind}"),
        ("heads.replaced.score.{kind}", "discriminator_predictions.dense_prediction.{kind}"),
        ("heads.vocabulary.dense.{kind}", "generator_predictions.dense.{kind}"),
        ("heads.vocabulary.norm.{kind}", "generator_predictions.LayerNorm.{kind}"),
        ("heads.vocabulary.decoder.{kind}", "generator_lm_head.{kind}"),
    ),
    *bert.ANSWER,
)
CHOICE = (*rules(("pooler.dense.{kind}", "sequence_summary.summary.{kind}")), *bert.CHOICE)


def _size(layers: int, width: int, table_width: int) -> dict[str, Any]:
    return bert.size(layers, width, embedding_size=table_width)


FAMILY = Family(
    model_type="electra",
    paper="Clark et al. 2020",
    prefix="electra.",
    base="ElectraModel",
    architectures={
        "ElectraModel": architecture(),
        "ElectraForPreTraining": architecture("replaced"),
        "ElectraForMaskedLM": architecture("vocabulary"),
        "ElectraForCausalLM": architecture("vocabulary"),
        "ElectraForSequenceClassification": architecture(
            "pooler", "classes", rules=roberta.CLASSES
        ),
        "ElectraForTokenClassification": architecture("tokens", rules=bert.TOKENS),
        "ElectraForQuestionAnswering": architecture(ANSWER_HEAD),
        "ElectraForMultipleChoice": architecture("pooler", CHOICE_HEAD, rules=CHOICE),
    },
    body=BODY,
    head=HEAD,
    ignored=bert.FAMILY.ignored,
    sizes={
        "electra-small": _size(12, 256, 128),
        "electra-base": _size(12, 768, 768),
        "electra-large": _size(24, 1024, 1024),
        "electra-small-generator": _size(12, 256, 128),
        "electra-base-generator": _size(12, 256, 768),
        "electra-large-generator": _size(24, 256, 1024),
    },
    style=WordPieceStyle(),
    read=read,
    write=write,
)
