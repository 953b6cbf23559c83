"""BERT.

Paper: Devlin, Chang, Lee, Toutanova 2019.
The idea: an encoder that sees both sides of every token, trained to fill gaps and to tell whether
one passage follows another.
Where paper and code differ: the released TensorFlow code uses the tanh approximation of GELU;
published checkpoints in the Hugging Face layout expect the exact one.
"""

from collections.abc import Mapping
from dataclasses import replace
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
from clozeworks.families.family import (
    ANSWER_HEAD,
    CHOICE_HEAD,
    Config,
    Family,
    Parts,
    architecture,
    head_keys,
)
from clozeworks.families.weights import Rule, layer_rules, rules
from clozeworks.text.tokenizer.styles import WordPieceStyle


def read(config: Config, parts: Parts) -> Blueprint:
    """The blueprint of a BERT config."""
    config.refuse("position_embedding_type", ["absolute"], "relative positions are another model")
    config.refuse("is_decoder", [False], "a decoder sees only the past")
    width = config.whole("hidden_size", 768)
    dropout = config.probability("hidden_dropout_prob", 0.1)
    head_dropout = config.probability("classifier_dropout", dropout)
    activation = config.activation("hidden_act")
    norm = LayerNorm(eps=config.number("layer_norm_eps", 1e-12))
    attention = SelfAttention(
        heads=config.heads("num_attention_heads", 12, "hidden_size", width),
        dropout=config.probability("attention_probs_dropout_prob", 0.1),
    )
    feed_forward = Mlp(inner=config.whole("intermediate_size", 3072), activation=activation)
    layer = (
        PostNorm(part=attention, norm=norm, dropout=dropout),
        PostNorm(part=feed_forward, norm=norm, dropout=dropout),
    )
    possible: dict[str, HeadSpec] = {
        "vocabulary": Vocabulary(
            norm=norm, activation=activation, tied=config.truth("tie_word_embeddings", True)
        ),
        "next_sentence": PooledClasses(count=2),
        "classes": PooledClasses(count=config.classes(), dropout=head_dropout),
        "tokens": TokenClasses(count=config.classes(), dropout=head_dropout),
        ANSWER_HEAD: TokenClasses(count=2),
        CHOICE_HEAD: PooledClasses(count=1, dropout=head_dropout),
    }
    return Blueprint(
        width=width,
        embeddings=Embeddings(
            tokens=config.whole("vocab_size", 30522),
            types=config.whole("type_vocab_size", 2, minimum=0),
            positions=Learned(count=config.whole("max_position_embeddings", 512)),
            norm=norm,
            dropout=dropout,
        ),
        encoder=Tower(layers=(layer,) * config.depth("num_hidden_layers", 12)),
        pooler=Pooler() if "pooler" in parts else None,
        heads={name: head for name, head in possible.items() if name in parts},
    )


def write(blueprint: Blueprint) -> dict[str, Any]:
    """The config of a BERT blueprint."""
    attention, feed_forward = blueprint.encoder.layers[0]
    embeddings = blueprint.embeddings
    config = {
        "vocab_size": embeddings.tokens,
        "hidden_size": blueprint.width,
        "num_hidden_layers": len(blueprint.encoder.layers),
        "num_attention_heads": getattr(attention.part, "heads", None),
        "intermediate_size": getattr(feed_forward.part, "inner", None),
        "hidden_act": published_activation(getattr(feed_forward.part, "activation", "gelu")),
        "hidden_dropout_prob": embeddings.dropout,
        "attention_probs_dropout_prob": getattr(attention.part, "dropout", None),
        "max_position_embeddings": getattr(embeddings.positions, "count", None),
        "type_vocab_size": embeddings.types,
        "layer_norm_eps": getattr(embeddings.norm, "eps", None),
    }
    return config | head_keys(
        blueprint.heads,
        ("tie_word_embeddings", "vocabulary", "tied"),
        ("classifier_dropout", "classes", "dropout"),
        ("classifier_dropout", "tokens", "dropout"),
        ("classifier_dropout", CHOICE_HEAD, "dropout"),
        ("num_labels", "classes", "count"),
        ("num_labels", "tokens", "count"),
    )


def published_activation(name: str) -> str:
    """The published spelling of an activation."""
    return {"gelu_tanh": "gelu_pytorch_tanh"}.get(name, name)


def with_dropout(
    heads: Mapping[str, HeadSpec], dropouts: Mapping[str, float]
) -> dict[str, HeadSpec]:
    """Heads with another dropout where one is stated for them."""
    return {
        name: replace(head, dropout=dropouts[name])
        if isinstance(head, PooledClasses | TokenClasses) and name in dropouts
        else head
        for name, head in heads.items()
    }


EMBEDDINGS = rules(
    ("embeddings.tokens.weight", "embeddings.word_embeddings.weight"),
    ("embeddings.types.weight", "embeddings.token_type_embeddings.weight"),
    ("embeddings.positions.table.weight", "embeddings.position_embeddings.weight"),
    ("embeddings.norm.{kind}", "embeddings.LayerNorm.{kind}"),
)
LAYERS = layer_rules(
    "encoder.layer.{layer}",
    {
        **{
            f"attention.part.{name}": f"attention.self.{name}" for name in ("query", "key", "value")
        },
        "attention.part.output": "attention.output.dense",
        "attention.norm": "attention.output.LayerNorm",
        "feed_forward.part.up": "intermediate.dense",
        "feed_forward.part.down": "output.dense",
        "feed_forward.norm": "output.LayerNorm",
    },
)
BODY = (*EMBEDDINGS, *LAYERS)

POOLER = rules(("pooler.dense.{kind}", "pooler.dense.{kind}"))
CLASSES = rules(("heads.classes.project.{kind}", "classifier.{kind}"))
TOKENS = rules(("heads.tokens.project.{kind}", "classifier.{kind}"))
ANSWER = rules(("heads.answer.project.{kind}", "qa_outputs.{kind}"))
CHOICE = rules(("heads.choice.project.{kind}", "classifier.{kind}"))

HEAD = (
    *rules(
        ("heads.vocabulary.dense.{kind}", "cls.predictions.transform.dense.{kind}"),
        ("heads.vocabulary.norm.{kind}", "cls.predictions.transform.LayerNorm.{kind}"),
        ("heads.vocabulary.decoder.weight", "cls.predictions.decoder.weight"),
        ("heads.vocabulary.decoder.bias", "cls.predictions.bias"),
        ("heads.next_sentence.project.{kind}", "cls.seq_relationship.{kind}"),
    ),
    # Compat: beside the decoder's weight stands a second bias. Tied models often store a copy of
    # the first there; where nothing is tied, the second is the one that is computed with.
    Rule("heads.vocabulary.decoder.bias", "cls.predictions.decoder.bias", second=True),
    *ANSWER,
)


def size(layers: int, width: int, vocab: int = 30522, **more: Any) -> dict[str, Any]:
    """The config of a published size; heads are 64 wide."""
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": width // 64,
        "intermediate_size": width * 4,
        "vocab_size": vocab,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        **more,
    }


FAMILY = Family(
    model_type="bert",
    paper="Devlin et al. 2019",
    prefix="bert.",
    base="BertModel",
    architectures={
        "BertModel": architecture("pooler"),
        "BertForPreTraining": architecture("pooler", "vocabulary", "next_sentence"),
        "BertForMaskedLM": architecture("vocabulary"),
        # Compat: a decoder only where `is_decoder` says so, which is refused.
        "BertLMHeadModel": architecture("vocabulary"),
        "BertForNextSentencePrediction": architecture("pooler", "next_sentence"),
        "BertForSequenceClassification": architecture("pooler", "classes", rules=CLASSES),
        "BertForTokenClassification": architecture("tokens", rules=TOKENS),
        "BertForQuestionAnswering": architecture(ANSWER_HEAD),
        "BertForMultipleChoice": architecture("pooler", CHOICE_HEAD, rules=CHOICE),
    },
    body=(*BODY, *POOLER),
    head=HEAD,
    ignored=("embeddings.position_ids", "embeddings.token_type_ids"),
    sizes={
        "bert-tiny": size(2, 128),
        "bert-mini": size(4, 256),
        "bert-small": size(4, 512),
        "bert-medium": size(8, 512),
        "bert-base": size(12, 768),
        "bert-base-cased": size(12, 768, 28996),
        "bert-base-chinese": size(12, 768, 21128),
        "bert-large": size(24, 1024),
    },
    size_notes={f"bert-{name}": "Turc et al. 2019" for name in ("tiny", "mini", "small", "medium")},
    style=WordPieceStyle(),
    read=read,
    write=write,
)
