"""DistilBERT: half of BERT's layers, without token types and pooler.

Paper: Sanh, Debut, Chaumond, Wolf 2019.
The idea: a student with every second layer of its teacher keeps 97 % of the GLUE score with 40 %
fewer parameters.
Where paper and code differ: the released student starts from the teacher's layers 0, 2, 4, 7, 9 and
11, not from every other one.
This file states only what differs from BERT.
"""

from dataclasses import replace
from typing import Any

from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads.pooled import Pooler
from clozeworks.core.layers.sublayer import PostNorm
from clozeworks.core.layers.tower import Tower
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
from clozeworks.families.weights import layer_rules, rules
from clozeworks.text.tokenizer.styles import WordPieceStyle

# What BERT's keys are called here; the other keys of BERT that are read keep their names.
SPELLING = {
    "hidden_size": "dim",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "intermediate_size": "hidden_dim",
    "hidden_act": "activation",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
}
SAME = ("vocab_size", "max_position_embeddings", "tie_word_embeddings", "id2label", "num_labels")


def read(config: Config, parts: Parts) -> Blueprint:
    """The blueprint of a DistilBERT config."""
    values = {ours: config.get(theirs) for ours, theirs in SPELLING.items()}
    values |= {key: config.get(key) for key in SAME}
    spelled = Config(values, config.source_location, SPELLING)
    defaults = {"num_hidden_layers": 6, "type_vocab_size": 0}
    blueprint = bert.read(spelled.with_defaults(defaults), parts - {"next_sentence"})
    attention, feed_forward = blueprint.encoder.layers[0]
    assert isinstance(attention, PostNorm)
    # Nothing is dropped from the attention's output.
    layer = (replace(attention, dropout=0.0), feed_forward)
    dropouts = {
        "classes": config.probability("seq_classif_dropout", 0.2),
        CHOICE_HEAD: config.probability("seq_classif_dropout", 0.2),
        ANSWER_HEAD: config.probability("qa_dropout", 0.1),
    }
    return replace(
        blueprint,
        encoder=Tower(layers=(layer,) * len(blueprint.encoder.layers)),
        pooler=Pooler(activation="relu") if "pooler" in parts else None,
        heads=bert.with_dropout(blueprint.heads, dropouts),
    )


def write(blueprint: Blueprint) -> dict[str, Any]:
    """The config of a DistilBERT blueprint."""
    config = {
        SPELLING.get(key, key): value
        for key, value in bert.write(blueprint).items()
        if key in SPELLING or key in SAME
    }
    return config | head_keys(
        blueprint.heads,
        ("seq_classif_dropout", "classes", "dropout"),
        ("seq_classif_dropout", CHOICE_HEAD, "dropout"),
        ("qa_dropout", ANSWER_HEAD, "dropout"),
    )


BODY = (
    *(rule for rule in bert.EMBEDDINGS if ".types." not in rule.ours),
    *layer_rules(
        "transformer.layer.{layer}",
        {
            "attention.part.query": "attention.q_lin",
            "attention.part.key": "attention.k_lin",
            "attention.part.value": "attention.v_lin",
            "attention.part.output": "attention.out_lin",
            "attention.norm": "sa_layer_norm",
            "feed_forward.part.up": "ffn.lin1",
            "feed_forward.part.down": "ffn.lin2",
            "feed_forward.norm": "output_layer_norm",
        },
    ),
)

HEAD = rules(
    ("heads.vocabulary.dense.{kind}", "vocab_transform.{kind}"),
    ("heads.vocabulary.norm.{kind}", "vocab_layer_norm.{kind}"),
    ("heads.vocabulary.decoder.{kind}", "vocab_projector.{kind}"),
)

_POOLER = rules(("pooler.dense.{kind}", "pre_classifier.{kind}"))
CLASSES = (*_POOLER, *bert.CLASSES)
CHOICE = (*_POOLER, *bert.CHOICE)

_BASE = {"n_layers": 6, "dim": 768, "n_heads": 12, "hidden_dim": 3072}

FAMILY = Family(
    model_type="distilbert",
    paper="Sanh et al. 2019",
    prefix="distilbert.",
    base="DistilBertModel",
    architectures={
        "DistilBertModel": architecture(),
        "DistilBertForMaskedLM": architecture("vocabulary"),
        "DistilBertForSequenceClassification": architecture("pooler", "classes", rules=CLASSES),
        "DistilBertForTokenClassification": architecture("tokens", rules=bert.TOKENS),
        "DistilBertForQuestionAnswering": architecture(ANSWER_HEAD),
        "DistilBertForMultipleChoice": architecture("pooler", CHOICE_HEAD, rules=CHOICE),
    },
    body=BODY,
    head=(*HEAD, *bert.ANSWER),
    ignored=("embeddings.position_ids",),
    sizes={
        "distilbert-base": {**_BASE, "vocab_size": 30522},
        "distilbert-base-cased": {**_BASE, "vocab_size": 28996},
    },
    style=WordPieceStyle(),
    read=read,
    write=write,
)
