"""RoBERTa: BERT's network, trained longer, with other positions, tokens and heads.

Paper: Liu et al. 2019.
The idea: BERT was undertrained. One loss (masked tokens, drawn anew each time), full-length inputs,
large batches, byte-level tokens.
Where paper and code differ: fairseq numbers positions from 2 (`<pad>` is token 1, and the row of
padding comes first), so a table of 514 rows takes 512 tokens.
This file states only what differs from BERT.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads import HeadSpec
from clozeworks.core.heads.pooled import Pooler
from clozeworks.core.heads.vocabulary import Vocabulary
from clozeworks.core.positions.learned import Learned
from clozeworks.families import bert
from clozeworks.families.family import (
    ANSWER_HEAD,
    CHOICE_HEAD,
    OWN,
    Config,
    Family,
    Parts,
    architecture,
)
from clozeworks.families.weights import Rule, rules
from clozeworks.text.tokenizer.styles import ByteLevelStyle


def read(config: Config, parts: Parts) -> Blueprint:
    """The blueprint of a RoBERTa config."""
    blueprint = bert.read(config, parts)
    # The classifier has a dense tanh layer of its own, with dropout before it.
    own_pooler = Pooler(
        dropout=config.probability("classifier_dropout", blueprint.embeddings.dropout)
    )
    pad = config.whole("pad_token_id", 1, minimum=0)
    return replace(
        blueprint,
        embeddings=replace(
            blueprint.embeddings,
            tokens=config.whole("vocab_size", 50265),
            positions=Learned(
                count=config.whole("max_position_embeddings", 512, minimum=pad + 2), offset=pad + 1
            ),
        ),
        pooler=own_pooler if "classes" in parts else blueprint.pooler,
        heads=bert.with_dropout(
            exact_gelu(blueprint.heads), {CHOICE_HEAD: blueprint.embeddings.dropout}
        ),
    )


def exact_gelu(heads: Mapping[str, HeadSpec]) -> dict[str, HeadSpec]:
    """Heads as they are, but for the activation of the vocabulary's."""
    # Compat: it is always the exact GELU, whatever hidden_act says.
    return {
        name: replace(head, activation="gelu") if isinstance(head, Vocabulary) else head
        for name, head in heads.items()
    }


def write(blueprint: Blueprint) -> dict[str, Any]:
    """The config of a RoBERTa blueprint."""
    offset: int = getattr(blueprint.embeddings.positions, "offset", 2)
    return {**bert.write(blueprint), "pad_token_id": offset - 1}


HEAD = (
    *rules(
        ("heads.vocabulary.dense.{kind}", "lm_head.dense.{kind}"),
        ("heads.vocabulary.norm.{kind}", "lm_head.layer_norm.{kind}"),
        ("heads.vocabulary.decoder.weight", "lm_head.decoder.weight"),
        ("heads.vocabulary.decoder.bias", "lm_head.bias"),
    ),
    Rule("heads.vocabulary.decoder.bias", "lm_head.decoder.bias", second=True),
    *bert.ANSWER,
)

CLASSES = rules(
    ("pooler.dense.{kind}", "classifier.dense.{kind}"),
    ("heads.classes.project.{kind}", "classifier.out_proj.{kind}"),
)


size = partial(
    bert.size,
    vocab=50265,
    max_position_embeddings=514,
    type_vocab_size=1,
    layer_norm_eps=1e-5,
    pad_token_id=1,
    bos_token_id=0,
    eos_token_id=2,
)

FAMILY = Family(
    model_type="roberta",
    paper="Liu et al. 2019",
    prefix="roberta.",
    base="RobertaModel",
    architectures={
        "RobertaModel": architecture("pooler"),
        "RobertaForMaskedLM": architecture("vocabulary"),
        "RobertaForCausalLM": architecture("vocabulary"),
        "RobertaForSequenceClassification": architecture("pooler", "classes", rules=CLASSES),
        "RobertaForTokenClassification": architecture("tokens", rules=bert.TOKENS),
        "RobertaForQuestionAnswering": architecture(ANSWER_HEAD),
        "RobertaForMultipleChoice": architecture("pooler", CHOICE_HEAD, rules=bert.CHOICE),
    },
    body=(*bert.BODY, *bert.POOLER),
    head=HEAD,
    ignored=bert.FAMILY.ignored,
    size_notes={"roberta-tiny": OWN},
    sizes={
        "roberta-tiny": size(2, 128),
        "roberta-base": size(12, 768),
        "roberta-large": size(24, 1024),
        "distilroberta-base": size(6, 768),
    },
    style=ByteLevelStyle(),
    read=read,
    write=write,
)
