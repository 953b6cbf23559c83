"""What the input shows at a masked position.

Paper: Devlin et al. 2019: 80 % `[MASK]`, 10 % a random token, 10 % the token itself. `[MASK]` never
comes up later, so the model must not learn that only it matters: as it cannot know which of the
other tokens are targets, it keeps a representation of every one.
The idea: one draw decides for a unit (a token, a word, a span); random tokens are drawn one by one.
Where papers and codes differ: BERT draws random tokens from the whole vocabulary, special ones
among them; fairseq leaves special tokens out (but not `<mask>`); SpanBERT takes a token from
anywhere in the corpus, so frequent ones come up more often.
Used by: every masked language model.

Shapes: N tokens, n masked tokens.
"""

from typing import ClassVar, Literal

import numpy as np

from clozeworks.arrays import BoolArray, Float64Array, Int64Array
from clozeworks.data.examples.example_arrays import ExampleArrays
from clozeworks.errors import SettingError
from clozeworks.objectives.batch import Vocabularies
from clozeworks.objectives.noise.draws import Draws
from clozeworks.objectives.noise.words import rows_of, segment_begins
from clozeworks.rng import fine_uniforms, uniforms
from clozeworks.spec import Probability, spec


@spec
class Corruption:
    """How often a masked token becomes `[MASK]`, a random token, or stays as it is."""

    paper: ClassVar[str] = "Devlin et al. 2019"

    mask: Probability = 0.8
    random: Probability = 0.1
    keep: Probability = 0.1
    unit: Literal["token", "word", "span"] = "token"
    """What is decided at once; a span is a run of masked tokens."""
    random_from: Literal["vocabulary", "ordinary", "corpus"] = "vocabulary"
    """Where random tokens come from; ordinary ones are all but the special tokens."""

    def __post_init__(self) -> None:
        total = self.mask + self.random + self.keep
        if abs(total - 1) > 1e-9:
            raise SettingError(
                "mask",
                self.mask,
                f"`mask`, `random` and `keep` must add up to 1, and make {total:.4g}",
                "change one of them",
            )

    def write(
        self,
        ids: Int64Array,
        positions: Int64Array,
        clean: ExampleArrays,
        draws: Draws,
        source: Vocabularies,
    ) -> None:
        """Overwrites tokens of a batch (N,) at the masked positions, in ascending order, (n,)."""
        rows = rows_of(clean, positions)
        within = positions - clean.starts[rows]
        shown = uniforms(draws.show[rows, within])
        if self.unit != "token":
            shown = shown[self._deciding(positions, clean)]
        if self.mask:
            ids[positions[shown < self.mask]] = source.mask()
        random = (shown >= self.mask) & (shown < self.mask + self.random)
        # Among the draws that mean a random token, where in their range one lies is random still.
        # If there are a thousand of them for each token, it says which one, and no more are needed.
        enough = self.random * 2**32 >= 1000 * source.vocabulary
        if enough and self.unit == "token" and self.random_from != "corpus":
            which = (shown[random] - self.mask) / (self.random or 1.0)
        else:
            which = fine_uniforms(draws.four("random", rows[random], within[random]))
        ids[positions[random]] = self._tokens(which, source)

    def _deciding(self, positions: Int64Array, clean: ExampleArrays) -> Int64Array:
        """The masked token whose draw counts for each of them: the first of its unit, (n,)."""
        firsts = span_begins(positions, segment_begins(clean))
        if self.unit == "word":
            firsts |= clean.word_starts[positions]
        return np.maximum.accumulate(np.where(firsts, np.arange(len(positions)), 0))

    def _tokens(self, which: Float64Array, source: Vocabularies) -> Int64Array:
        """Random tokens: numbers from 0 up to but not 1 say which."""
        if self.random_from == "corpus":
            split = source.corpus()
            return split.at(_spread(which, split.tokens))
        if self.random_from == "ordinary":
            return source.ordinary[_spread(which, len(source.ordinary))]
        return _spread(which, source.vocabulary)


def _spread(which: Float64Array, limit: int) -> Int64Array:
    """Numbers from 0 up to but not 1 as whole numbers from 0 to limit - 1."""
    # Trap: a product just below the limit may be rounded up to it.
    return np.minimum((which * limit).astype(np.int64), limit - 1)


def span_begins(positions: Int64Array, segments: BoolArray) -> BoolArray:
    """Which masked tokens (n,) are the first of a run, given which tokens begin a segment, (N,)."""
    firsts = segments[positions]
    firsts[:1] = True
    firsts[1:] |= positions[1:] != positions[:-1] + 1
    return firsts
