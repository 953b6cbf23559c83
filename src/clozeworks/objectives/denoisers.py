"""A mixture of denoisers: for each example another kind of mask, and a token that says which.

Paper: Tay et al. 2022 (UL2).
Data: any text, usually `blocks`.
Masks and predicts: each example draws one of several denoisers. Those of UL2 are regular spans as
T5 has them (R), the end of a text (S), and extreme ones, long spans or half of the text (X). Inputs
and targets are those of `SpanCorruption`; a mode token stands before the input: `[NLU]` for R,
`[S2S]` for S, `[NLG]` for X. The end of a text is masked in one of five examples, the six others
share the rest equally. Which denoiser an example gets is a function of the seed, the epoch and its
number.
Loss: -log p(token) at every token of the targets, summed over all denoisers.
Relations: `SpanCorruption` is one of these alone. A model that saw all of them can fill gaps and
continue texts, and the mode token chooses. With `modes = false` it has to find out by itself.
Where paper and code differ: the paper writes `[R]`, `[S]`, `[X]`, the released model the names
above, and spells them with pieces of text; here each is a special token of its own. The weights of
the mixture are those of later reports that cite the paper.
Example: `Denoisers(modes=False)`, or in a recipe
`{kind = "denoisers", modes = false, parts = [{hide = {kind = "alternating_spans", fraction = 0.5}},
{hide = {kind = "alternating_spans", fraction = 0.25}, weight = 2.0}]}`.

Shapes: B examples.
"""

import dataclasses
from typing import Annotated, ClassVar

import numpy as np

from clozeworks.arrays import Int64Array
from clozeworks.data.examples.example_arrays import ExampleArrays
from clozeworks.errors import SettingError, TokenizerError
from clozeworks.objectives.batch import BatchBuilder, Vocabularies
from clozeworks.objectives.noise import ChoiceSpec
from clozeworks.objectives.noise.alternating_spans import AlternatingSpans
from clozeworks.objectives.noise.draws import Draws
from clozeworks.objectives.noise.sentinels import Corrupted, corrupt
from clozeworks.objectives.objective import StatesExamples
from clozeworks.objectives.span_corruption import CorruptedSpans
from clozeworks.rng import RandomStream
from clozeworks.spec import Above, Advice, spec

# The denoiser of each example.
CHOSEN = "chosen"
REGULAR, SEQUENTIAL, EXTREME = "[NLU]", "[S2S]", "[NLG]"


@spec
class Denoiser:
    """One of several ways to mask tokens."""

    paper: ClassVar[str] = "Tay et al. 2022"

    hide: ChoiceSpec = AlternatingSpans()
    """Which tokens, and how many."""
    weight: Annotated[float, Above(0), Advice("leave the denoiser out instead")] = 1.0
    """How often it is drawn, compared with the others."""
    mode: str = REGULAR
    """The token that stands before its inputs."""


def _spans(mean: float | None, fraction: float, mode: str, weight: float) -> Denoiser:
    return Denoiser(hide=AlternatingSpans(fraction=fraction, mean=mean), mode=mode, weight=weight)


# Paper: Tay et al. 2022, Table 1; the sequential one a fifth of the time, the others alike.
UL2 = (
    _spans(3.0, 0.15, REGULAR, 2 / 15),
    _spans(8.0, 0.15, REGULAR, 2 / 15),
    _spans(None, 0.25, SEQUENTIAL, 0.2),
    _spans(3.0, 0.5, EXTREME, 2 / 15),
    _spans(8.0, 0.5, EXTREME, 2 / 15),
    _spans(64.0, 0.15, EXTREME, 2 / 15),
    _spans(64.0, 0.5, EXTREME, 2 / 15),
)


@spec
class Denoisers(StatesExamples, CorruptedSpans):
    """Masks tokens in one of several ways, and says in which."""

    paper: ClassVar[str] = "Tay et al. 2022"

    parts: tuple[Denoiser, ...] = UL2
    """The ways to mask tokens; the seven of UL2 if not given."""
    modes: bool = True
    """Whether a token before each input says which way it was."""

    def __post_init__(self) -> None:
        if not self.parts:
            raise SettingError("parts", (), "a mixture needs at least one denoiser", "add one")

    def collate(self, builder: BatchBuilder, rng: RandomStream, source: Vocabularies) -> None:
        """Rewrites the texts; `chosen` is the denoiser of each example."""
        clean, stream = builder.clean, rng.stream(self.name)
        chosen = self.chosen(clean, stream)
        positions = [
            self._positions(number, part.hide, clean, chosen, stream)
            for number, part in enumerate(self.parts)
        ]
        masked = np.sort(np.concatenate(positions))
        texts = corrupt(clean, masked, source.sentinels, source.end())
        if self.modes:
            modes = np.array([_mode(part, source) for part in self.parts])
            texts = _opened(texts, modes[chosen])
        self.rewrite(builder, masked, texts, source)
        builder.targets[self.name][CHOSEN] = chosen

    def chosen(self, clean: ExampleArrays, rng: RandomStream) -> Int64Array:
        """The number of the denoiser of each example, (B,)."""
        drawn = rng.stream("denoiser").uniform(clean.epochs, clean.indices, 1)[:, 0]
        weights = np.array([part.weight for part in self.parts])
        return np.searchsorted(np.cumsum(weights[:-1]) / weights.sum(), drawn, side="right")

    @staticmethod
    def _positions(
        number: int, hide: ChoiceSpec, clean: ExampleArrays, chosen: Int64Array, rng: RandomStream
    ) -> Int64Array:
        """What one denoiser masks in the examples that drew it."""
        rows = np.flatnonzero(chosen == number)
        if not len(rows):
            return np.zeros(0, dtype=np.int64)
        examples = clean.some(rows)
        return clean.tokens_of(rows)[hide.positions(examples, Draws.of(examples, rng))]


def _opened(texts: Corrupted, modes: Int64Array) -> Corrupted:
    """The same with a token before each input, (B,)."""
    lengths = texts.input_lengths
    inputs = np.insert(texts.inputs, np.cumsum(lengths) - lengths, modes)
    return dataclasses.replace(texts, inputs=inputs, input_lengths=lengths + 1)


def _mode(part: Denoiser, source: Vocabularies) -> int:
    if part.mode not in source.named:
        raise TokenizerError(
            f"the tokenizer has no special token {part.mode}; it says how an input was made; train "
            "a tokenizer with it: clozeworks tokenizer train … --extra, or set modes to false."
        )
    return source.named[part.mode]
