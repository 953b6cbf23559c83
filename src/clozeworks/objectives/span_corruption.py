"""Span corruption: hide spans, show a sentinel for each, ask a decoder for all of them.

Paper: Raffel et al. 2020 (T5); Xue et al. 2021 (mT5); Xue et al. 2022 (ByT5).
Data: any text, usually `blocks` across documents. For inputs of 512 tokens a block has 568 tokens
of text and the end token: `length = 569`.
Hides and asks: `hide` chooses tokens (15 % in spans of 3). In the input a sentinel stands for each
hidden run, `<extra_id_0>` for the first; the answer has the hidden runs, a sentinel for each kept
run between them, and the end token. A token that the tokenizer has beside its text is never hidden.
Loss: -log p(token) at every token of the answer, sentinels and the end among them, summed.
Relations: `MaskedLM` asks an encoder for single tokens, each as if it were alone; here a decoder
writes them, and its inputs are shorter than the text. `Denoisers` mixes several of these.
`PrefixLM` hides the end of a text, and no sentinel stands for it.
Where paper and code differ: the paper's figure closes its answer with a sentinel; see
`noise/sentinels.py`. The code cuts documents to 65,536 tokens and joins 128 at random before it
cuts blocks; here blocks follow the corpus, whose documents stand in random order if it was built
so.
Example: `SpanCorruption(examples=Blocks(length=569))`, or in a recipe
`{kind = "span_corruption", hide = {kind = "alternating_spans", fraction = 0.15, mean = 3.0}}`.
"""

from typing import ClassVar

from clozeworks.data.examples import ExamplesSpec
from clozeworks.objectives.batch import BatchBuilder, Vocabularies
from clozeworks.objectives.noise import ChoiceSpec
from clozeworks.objectives.noise.alternating_spans import AlternatingSpans
from clozeworks.objectives.noise.draws import Draws
from clozeworks.objectives.noise.sentinels import corrupt
from clozeworks.objectives.span_targets import CorruptedSpans, Sentinels, sentinel_ids
from clozeworks.rng import RandomStream
from clozeworks.spec import spec


@spec
class SpanCorruption(CorruptedSpans):
    """Hides spans and asks a decoder for them."""

    paper: ClassVar[str] = "Raffel et al. 2020"

    examples: ExamplesSpec | None = None
    """What stands side by side."""
    hide: ChoiceSpec = AlternatingSpans()
    """Which tokens, and how many."""
    sentinels: Sentinels = "named"
    """What stands for a span: the tokens `<extra_id_0>` and so on, or, as in ByT5, the ids 258,
    257 and so on, which are bytes that hardly occur."""

    def collate(self, builder: BatchBuilder, rng: RandomStream, source: Vocabularies) -> None:
        """Rewrites the texts; asks for `answers`."""
        draws = Draws.of(builder.clean, rng.stream(self.name))
        positions = self.hide.positions(builder.clean, draws)
        found = corrupt(
            builder.clean, positions, sentinel_ids(self.sentinels, source), source.end()
        )
        self.ask(builder, positions, found, source)
