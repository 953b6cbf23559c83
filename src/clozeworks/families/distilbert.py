"""DistilBERT: half of BERT's layers, without token types and pooler.

Paper: Sanh, Debut, Chaumond, Wolf 2019.
The idea: a student with every second layer of its teacher keeps 97 % of the GLUE score with 40 %
fewer parameters.
Where paper and code differ: the released student starts from the teacher's layers 0, 2, 4, 7, 9 and
11, not from every other one.
"""

from typing import Any

from clozeworks.core.attention.attention import SelfAttention
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads import HeadSpec
from clozeworks.core.heads.pooled import PooledClasses, Pooler
from clozeworks.core.heads.tokens import TokenClasses
from clozeworks.core.heads.vocabulary import Vocabulary
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layers.feed_forward import Mlp
from clozeworks.core.layers.norm import LayerNorm
from clozeworks.core.layers.sublayer import PostNorm
from clozeworks.core.layers.tower import Tower
from clozeworks.core.positions.learned import Learned
from clozeworks.families.bert import TOKENS, published_activation
from clozeworks.families.family import ANSWER_HEAD, Config, Family, Parts, architecture
from clozeworks.families.weights import rules
from clozeworks.text.tokenizer.styles import WordPieceStyle

NORM = LayerNorm(eps=1e-12)


def read(config: Config, parts: Parts) -> Blueprint:
    """The blueprint of a DistilBERT config."""
    width = config.whole("dim", 768)
    dropout = config.probability("dropout", 0.1)
    activation = config.activation("activation")
    attention = SelfAttention(
        heads=config.heads("n_heads", "dim", config.whole("n_heads", 12), width),
        dropout=config.probability("attention_dropout", 0.1),
    )
    feed_forward = Mlp(inner=config.whole("hidden_dim", 3072), activation=activation)
    layer = (
        PostNorm(part=attention, norm=NORM),  # no dropout on the attention's output
        PostNorm(part=feed_forward, norm=NORM, dropout=dropout),
    )
    class_dropout = config.probability("seq_classif_dropout", 0.2)
    possible: dict[str, HeadSpec] = {
        "vocabulary": Vocabulary(
            norm=NORM, activation=activation, tied=config.truth("tie_word_embeddings", True)
        ),
        "classes": PooledClasses(count=config.classes(), dropout=class_dropout),
        "tokens": TokenClasses(count=config.classes(), dropout=dropout),
        ANSWER_HEAD: TokenClasses(count=2, dropout=config.probability("qa_dropout", 0.1)),
    }
    return Blueprint(
        width=width,
        embeddings=Embeddings(
            tokens=config.whole("vocab_size", 30522),
            positions=Learned(count=config.whole("max_position_embeddings", 512)),
            norm=NORM,
            dropout=dropout,
        ),
        encoder=Tower(layers=(layer,) * config.depth("n_layers", 6)),
        pooler=Pooler(activation="relu") if "pooler" in parts else None,
        heads={name: head for name, head in possible.items() if name in parts},
    )


def write(blueprint: Blueprint) -> dict[str, Any]:
    """The config of a DistilBERT blueprint."""
    attention, feed_forward = blueprint.encoder.layers[0]
    embeddings = blueprint.embeddings
    config = {
        "vocab_size": embeddings.tokens,
        "dim": blueprint.width,
        "n_layers": len(blueprint.encoder.layers),
        "n_heads": getattr(attention.part, "heads", None),
        "hidden_dim": getattr(feed_forward.part, "inner", None),
        "activation": published_activation(getattr(feed_forward.part, "activation", "gelu")),
        "dropout": embeddings.dropout,
        "attention_dropout": getattr(attention.part, "dropout", None),
        "max_position_embeddings": getattr(embeddings.positions, "count", None),
    }
    if vocabulary := blueprint.heads.get("vocabulary"):
        config["tie_word_embeddings"] = getattr(vocabulary, "tied", None)
    if head := blueprint.heads.get("classes"):
        config["seq_classif_dropout"] = getattr(head, "dropout", None)
    if head := blueprint.heads.get(ANSWER_HEAD):
        config["qa_dropout"] = getattr(head, "dropout", None)
    for name in ("classes", "tokens"):
        if head := blueprint.heads.get(name):
            config["num_labels"] = getattr(head, "count", None)
    return config


BODY = rules(
    ("embeddings.tokens.weight", "embeddings.word_embeddings.weight"),
    ("embeddings.positions.table.weight", "embeddings.position_embeddings.weight"),
    ("embeddings.norm.{kind}", "embeddings.LayerNorm.{kind}"),
    *(
        (
            f"encoder.layers.{{layer}}.attention.part.{ours}.{{kind}}",
            f"transformer.layer.{{layer}}.attention.{theirs}.{{kind}}",
        )
        for ours, theirs in (
            ("query", "q_lin"),
            ("key", "k_lin"),
            ("value", "v_lin"),
            ("output", "out_lin"),
        )
    ),
    (
        "encoder.layers.{layer}.attention.norm.{kind}",
        "transformer.layer.{layer}.sa_layer_norm.{kind}",
    ),
    (
        "encoder.layers.{layer}.feed_forward.part.up.{kind}",
        "transformer.layer.{layer}.ffn.lin1.{kind}",
    ),
    (
        "encoder.layers.{layer}.feed_forward.part.down.{kind}",
        "transformer.layer.{layer}.ffn.lin2.{kind}",
    ),
    (
        "encoder.layers.{layer}.feed_forward.norm.{kind}",
        "transformer.layer.{layer}.output_layer_norm.{kind}",
    ),
)

HEAD = rules(
    ("heads.vocabulary.dense.{kind}", "vocab_transform.{kind}"),
    ("heads.vocabulary.norm.{kind}", "vocab_layer_norm.{kind}"),
    ("heads.vocabulary.decoder.{kind}", "vocab_projector.{kind}"),
    ("heads.answer.project.{kind}", "qa_outputs.{kind}"),
)

CLASSES = rules(
    ("pooler.dense.{kind}", "pre_classifier.{kind}"),
    ("heads.classes.project.{kind}", "classifier.{kind}"),
)

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
        "DistilBertForTokenClassification": architecture("tokens", rules=TOKENS),
        "DistilBertForQuestionAnswering": architecture(ANSWER_HEAD),
    },
    body=BODY,
    head=HEAD,
    ignored=("embeddings.position_ids",),
    sizes={
        "distilbert-base": {**_BASE, "vocab_size": 30522},
        "distilbert-base-cased": {**_BASE, "vocab_size": 28996},
    },
    style=WordPieceStyle(),
    read=read,
    write=write,
)
