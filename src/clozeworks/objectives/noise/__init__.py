"""Noise taken apart: which tokens, how many, and what the input shows in their place.

Paper: Raffel et al. 2020 (T5) describe denoising as a choice of tokens and a way to write them.

| question | answers | file |
|---|---|---|
| which tokens | `SingleTokens`, `WholeWords`, `NGrams`, `Spans`, | one file each |
| | `SpacedSpans`, `AlternatingSpans` | |
| how many | `Exact`, `RandomRounding`, `Ceiling`, `Bernoulli` | `budget.py` |
| what is shown | `Corruption`: a mask, a random token, the token itself | `corruption.py` |
| | `corrupt`: a sentinel for each run | `sentinels.py` |

Any answer goes with any other, but n-grams and spans need a number they may not exceed, so they
take no `Bernoulli`. Rules all of them keep:

- What the template added is never masked. (fairseq masks `<s>` and `</s>` too; nothing can be
  learned from a target that is always the same, so we do not.)
- No word, n-gram or span crosses a special token, the two texts of a pair, or two examples. (The
  released ALBERT lets an n-gram run across `[SEP]`, and the released BERT joins a word's end that
  truncation put at the beginning of the second text to the last word of the first.)
- Words are what the data says they are (`ExampleArrays.word_starts`); a text that begins in the
  middle of a word begins a word.
- What is chosen for an example is a function of the seed, the epoch and the example's number.

Shapes: N tokens of all examples, B examples, L the longest example.
"""

from typing import ClassVar

from clozeworks.arrays import Int64Array
from clozeworks.data.examples.example_arrays import ExampleArrays
from clozeworks.objectives.noise.draws import Draws
from clozeworks.spec import Slot


class ChoiceSpec(Slot):
    """Slot: which tokens are masked."""

    is_slot: ClassVar[bool] = True
    folder: ClassVar[str | None] = "clozeworks.objectives.noise"

    def positions(self, clean: ExampleArrays, draws: Draws) -> Int64Array:
        """The tokens to mask among all tokens of the batch, in ascending order, (n,)."""
        raise NotImplementedError
