"""XLM-RoBERTa: RoBERTa for a hundred languages.

Paper: Conneau et al. 2020.
The idea: one vocabulary of 250,000 pieces and one network for 100 languages, trained as RoBERTa on
2.5 TB of web text; rare languages are read more often than they occur. Much of what embeds or ranks
texts of several languages began with it: bge-m3 (with room for 8,192 tokens), multilingual E5, and
their rerankers.
Compat: a silent config means BERT's vocabulary size, which no published checkpoint has.
This file states only what differs from RoBERTa.
"""

from dataclasses import replace
from functools import partial

from clozeworks.core.blueprint import Blueprint
from clozeworks.families import roberta
from clozeworks.families.family import Config, Parts
from clozeworks.text.tokenizer.styles import XLM_ROBERTA_STYLE


def read(config: Config, parts: Parts) -> Blueprint:
    """The blueprint of an XLM-RoBERTa config."""
    return roberta.read(config.with_defaults({"vocab_size": 30_522}), parts)


_size = partial(roberta.size, vocab=250_002)

FAMILY = replace(
    roberta.FAMILY,
    model_type="xlm-roberta",
    paper="Conneau et al. 2020",
    base="XLMRobertaModel",
    architectures={
        name.replace("Roberta", "XLMRoberta"): shape
        for name, shape in roberta.FAMILY.architectures.items()
    },
    sizes={
        "xlm-roberta-base": _size(12, 768),
        "xlm-roberta-large": _size(24, 1024),
        "bge-m3": _size(24, 1024, max_position_embeddings=8194),
    },
    style=XLM_ROBERTA_STYLE,
    read=read,
)
