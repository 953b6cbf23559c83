"""Masked language modelling: mask some tokens, predict all of them.

Paper: Devlin et al. 2019 (BERT); Liu et al. 2019 (RoBERTa: a new mask every time); Lan et al. 2020
(ALBERT: n-grams); Joshi et al. 2020 (SpanBERT: spans).
Data: any text; whole words, n-grams and spans use the word starts the corpus holds.
Masks and predicts: `hide` chooses tokens (15 %), `show` writes masks, random tokens or nothing over
them, and each of them is predicted, also those left as they were. With `masks = 10` an example has
ten masks that come back in turn, as if ten masked copies lay on disk (BERT); without it every epoch
has a new one (RoBERTa). What the template added is never masked; fairseq masks it too.
Loss: -log p(token) at the masked positions only, summed; logits exist nowhere else.
Relations: the part every other pre-training objective here is added to. `SingleTokens` is fastest;
`WholeWords` makes harder targets of the same text; `NGrams` and `Spans` suit tasks about phrases.
A fraction above 0.15 gives more targets per text, and less context to predict them from.
Example: `MaskedLM.roberta()`, or in a recipe
`{kind = "masked_lm", hide = {kind = "whole_words", budget = {kind = "exact", fraction = 0.2}}}`.

Shapes: N tokens, W width, n targets.
"""

from collections.abc import Collection
from typing import ClassVar

from torch import Tensor

from clozeworks.core.heads.vocabulary import NAME as HEAD
from clozeworks.core.loss import LossTerms
from clozeworks.core.model import Model
from clozeworks.objectives.batch import ANSWERS, BatchBuilder, BatchTensors, Vocabularies
from clozeworks.objectives.noise import ChoiceSpec
from clozeworks.objectives.noise.budget import Ceiling, Exact, RandomRounding
from clozeworks.objectives.noise.corruption import Corruption
from clozeworks.objectives.noise.draws import Draws
from clozeworks.objectives.noise.ngrams import NGrams
from clozeworks.objectives.noise.single_tokens import SingleTokens
from clozeworks.objectives.noise.spans import Spans
from clozeworks.objectives.noise.whole_words import WholeWords
from clozeworks.objectives.objective import StatesExamples
from clozeworks.rng import RandomStream
from clozeworks.spec import PositiveInt, spec

# The loss term and the random stream of masked tokens, whichever head predicts them.
MASKED = "masked_lm"


@spec
class MaskedLM(StatesExamples):
    """Masks tokens and predicts them."""

    paper: ClassVar[str] = "Devlin et al. 2019"

    hide: ChoiceSpec = SingleTokens()
    """Which tokens, and how many."""
    show: Corruption = Corruption()
    """What the input shows in their place."""
    masks: PositiveInt | None = None
    """How many masks an example has before they come back; a new one each epoch if not given."""

    @property
    def loss_names(self) -> tuple[str, ...]:
        """The masked tokens."""
        return (MASKED,)

    @classmethod
    def bert(
        cls,
        *,
        max_predictions: int | None = None,
        masks: int | None = 10,
        whole_words: bool = False,
    ) -> "MaskedLM":
        """BERT: an exact 15 %, 80/10/10 for each token, ten masks for each example.

        Args:
            max_predictions: The most masked tokens of an example; the released code had 20 for a
                length of 128.
            masks: Masks for each example.
            whole_words: As the later whole-word models were trained.
        """
        budget = Exact(fraction=0.15, max_count=max_predictions)
        hide = WholeWords(budget=budget) if whole_words else SingleTokens(budget=budget)
        return cls(hide=hide, masks=masks)

    @classmethod
    def roberta(cls) -> "MaskedLM":
        """RoBERTa: 15 % on average, a new mask every epoch, random tokens are never special ones.

        fairseq also masks `<s>` and `</s>`, and may draw `<mask>` as a random token; this does
        neither.
        """
        return cls(
            hide=SingleTokens(budget=RandomRounding(fraction=0.15)),
            show=Corruption(random_from="ordinary"),
        )

    @classmethod
    def albert(cls, *, max_predictions: int | None = None, masks: int | None = 40) -> "MaskedLM":
        """ALBERT: runs of up to three whole words, 80/10/10 for each token, forty masks."""
        return cls(
            hide=NGrams(longest=3, budget=Exact(fraction=0.15, max_count=max_predictions)),
            masks=masks,
        )

    @classmethod
    def spanbert(cls) -> "MaskedLM":
        """SpanBERT: spans of 3.8 words, 80/10/10 for each span, random tokens from the corpus."""
        return cls(
            hide=Spans(p=0.2, longest=10, budget=Ceiling(fraction=0.15)),
            show=Corruption(unit="span", random_from="corpus"),
        )

    def collate(self, builder: BatchBuilder, rng: RandomStream, source: Vocabularies) -> None:
        """Masks tokens; `answers` stood at `positions`."""
        clean = builder.clean
        epochs = clean.epochs if self.masks is None else clean.epochs % self.masks
        draws = Draws.of(clean, rng.stream(MASKED), epochs)
        positions = self.hide.positions(clean, draws)
        self.show.write(builder.ids, positions, clean, draws, source)
        builder.masked_positions = positions
        builder.targets[MASKED] = {"positions": positions, ANSWERS: clean.ids[positions]}

    def required_heads(self, available: Collection[str]) -> frozenset[str]:
        """A vocabulary head."""
        return frozenset({HEAD})

    def losses(self, model: Model, hidden_states: Tensor, tensors: BatchTensors) -> LossTerms:
        """The cross-entropy at the masked positions; logits exist nowhere else."""
        targets = tensors.targets[MASKED]
        x = hidden_states[targets["positions"]]
        return {MASKED: model.vocabulary.loss(x, targets[ANSWERS])}
