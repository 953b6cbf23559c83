"""TSDAE: a text is written again from the vector of what is left of it.

Paper: Wang, Reimers, Gurevych 2021.
Data: texts alone.
Loss: of every word six in ten are deleted; a decoder that is the encoder itself, seeing the past
and the one vector of the damaged text, predicts the whole text: -log p(token), summed over tokens.
The decoder is left out afterwards.
Relations: SimCSE (`MultipleNegativesRanking` on a text and itself) compares texts with each other
and wants large steps; this compares nothing, so a step may be small.
Where paper and code differ: the code splits texts at spaces with NLTK; here a word is what the
vocabulary says begins one, so a Chinese character is a word.
Trap: the paper takes the vector of the first token, and so does a model whose folder states no
other; some word always stays.

Shapes: N tokens, B texts, U words, W width.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from clozeworks.arrays import BoolArray
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads import HeadSpec
from clozeworks.core.heads.tied_decoder import TiedDecoder
from clozeworks.core.heads.vocabulary import NAME as VOCABULARY
from clozeworks.core.layout import Layout
from clozeworks.core.loss import LossTerm
from clozeworks.data.examples.example_arrays import ExampleArrays
from clozeworks.errors import SettingError
from clozeworks.objectives.batch import ANSWERS, BatchBuilder, TargetArrays
from clozeworks.objectives.noise.draws import Draws
from clozeworks.objectives.noise.words import TextWords, rows_of
from clozeworks.objectives.teacher_forcing import LENGTHS, READ
from clozeworks.rng import RandomStream, uniforms
from clozeworks.spec import DropoutRate, spec
from clozeworks.tasks.embed.losses import HEAD, EmbeddingLoss


@spec
class TSDAE(EmbeddingLoss):
    """A damaged text's vector says all of it."""

    paper: ClassVar[str] = "Wang et al. 2021"
    takes: ClassVar[frozenset[str]] = frozenset({"texts"})
    rebuilds: ClassVar[bool] = True
    usual_pooling: ClassVar[tuple[str, ...]] = ("first",)
    required_heads: ClassVar[frozenset[str]] = frozenset({VOCABULARY})

    deletion: DropoutRate = 0.6
    """The probability that a word is deleted."""

    def heads(self, width: int, blueprint: Blueprint) -> dict[str, HeadSpec]:
        """The decoder's cross-attentions.

        Raises:
            SettingError: If vectors are not as wide as the model.
        """
        if width != blueprint.width:
            rule = (
                f"its decoder reads vectors of the model's width, {blueprint.width:,}, and these "
                f"have {width:,} dimensions"
            )
            raise SettingError("loss.kind", "tsdae", rule, "use one pooling and no other steps")
        return {HEAD: TiedDecoder.of(blueprint.encoder)}

    def damage(self, builder: BatchBuilder, rng: RandomStream) -> TargetArrays:
        """Deletes words from the texts of a batch; what is predicted are the whole texts."""
        clean = builder.clean
        stays = self.what_stays(clean, Draws.of(clean, rng))
        lengths = np.bincount(rows_of(clean, np.flatnonzero(stays)), minlength=len(clean))
        builder.rewrite(clean.ids[stays], lengths)
        first, last = np.zeros((2, len(clean.ids)), np.bool_)
        first[clean.starts] = last[clean.starts + clean.lengths - 1] = True
        return {ANSWERS: clean.ids[~first], READ: clean.ids[~last], LENGTHS: clean.lengths - 1}

    def what_stays(self, clean: ExampleArrays, draws: Draws) -> BoolArray:
        """Which tokens are not deleted, (N,)."""
        words = TextWords.of(clean)
        drawn = uniforms(draws.hide[words.rows, words.begins])  # (U,)
        taken = drawn >= self.deletion
        # The highest draw of a text stays: all others are deleted before it.
        order = np.lexsort((drawn, words.rows))
        is_highest = np.diff(words.rows[order], append=-1) != 0
        taken[order[is_highest]] = True
        stays = clean.special.copy()
        stays[words.positions(taken)] = True
        return stays

    def rebuilt(self, model: Any, vectors: Tensor, targets: Mapping[str, Tensor]) -> LossTerm:
        """What the whole texts cost, each predicted from its vector, (B, W)."""
        layout = Layout(targets[LENGTHS].tolist())
        x = model.heads[HEAD](model, targets[READ], layout, vectors)  # (N, W)
        term: LossTerm = model.vocabulary.loss(x, targets[ANSWERS])
        return term
