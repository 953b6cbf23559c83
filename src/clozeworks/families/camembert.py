"""CamemBERT: RoBERTa for French.

Paper: Martin et al. 2020.
The idea: RoBERTa's network and training, with whole words masked, on 138 GB of French web text.
With 4 GB it is nearly as good: variety counts more than size.
Compat: published weights go by RoBERTa's names. The vocabulary has two sets of special tokens, and
some of each are used: fairseq's `<pad>` (1) and `<unk>` (3), SentencePiece's `<s>` (5) and `</s>`
(6).
This file states only what differs from RoBERTa.
"""

from dataclasses import replace
from functools import partial

from clozeworks.families import roberta, xlm_roberta
from clozeworks.text.tokenizer.styles import CAMEMBERT_STYLE

_size = partial(roberta.size, vocab=32_005, bos_token_id=5, eos_token_id=6)

FAMILY = replace(
    roberta.FAMILY,
    model_type="camembert",
    paper="Martin et al. 2020",
    base="CamembertModel",
    architectures={
        name.replace("Roberta", "Camembert"): shape
        for name, shape in roberta.FAMILY.architectures.items()
    },
    sizes={"camembert-base": _size(12, 768), "camembert-large": _size(24, 1024)},
    style=CAMEMBERT_STYLE,
    read=xlm_roberta.read,  # the same defaults
)
