"""What an answer costs, token by token, each told all the right ones before it.

Paper: Williams & Zipser 1989 (the name); Sutskever et al. 2014.
The idea: an encoder-decoder is shown a text and the answer moved one place to the right, so all
tokens of the answer are asked for in one pass.
Used by: every objective and task whose answers are texts.

Shapes: N tokens, n tokens of all answers, B texts, W width.
"""

from collections.abc import Mapping
from typing import cast

import numpy as np
from torch import Tensor

from clozeworks.core.flow import Source
from clozeworks.core.heads.vocabulary import PlainVocabularyModule
from clozeworks.core.layout import Layout
from clozeworks.core.model import Model
from clozeworks.data.shards import Numbers
from clozeworks.objectives.draft import ANSWERS, Part, Tensors
from clozeworks.objectives.loss import Cost

HEAD = "vocabulary"
# The tokens a decoder reads, and how many each text has.
READ, LENGTHS = "read", "lengths"


def answer_part(answers: Numbers, lengths: Numbers, start: int) -> Part:
    """What is asked, and what the decoder reads: the start, then the answer but for its last token.

    Args:
        answers: The tokens of all answers, one answer after the other, (n,).
        lengths: How many tokens each answer has, at least one, (B,).
        start: What every answer begins with; T5 takes its padding token.
    """
    read = np.empty_like(answers)
    read[1:] = answers[:-1]
    read[np.cumsum(lengths) - lengths] = start
    return {ANSWERS: answers, READ: read, LENGTHS: lengths}


def decoded(model: Model, tensors: Tensors, part: Mapping[str, Tensor]) -> Tensor:
    """The decoder's vectors of all tokens of the answers, (n, W)."""
    encoded = Source(model(tensors.ids, tensors.layout, tensors.types), tensors.layout)
    return model.decode(part[READ], Layout(part[LENGTHS].tolist()), encoded)


def naming_cost(model: Model, x: Tensor, answers: Tensor) -> Cost:
    """The cost of naming the next tokens from the vectors (n, W) that know all before them."""
    head = cast(PlainVocabularyModule, model.heads[HEAD])
    return Cost.of_naming(head.transform(x), head.decoder, answers)
