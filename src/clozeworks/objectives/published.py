"""The objectives of the papers by name, ready to use.

| name | paper | what it is |
|---|---|---|
| `bert` | Devlin et al. 2019 | masked tokens and next-sentence pairs |
| `roberta` | Liu et al. 2019 | masked tokens, a new mask each epoch, full sentences |
| `albert` | Lan et al. 2020 | masked n-grams, sentence order (its 40 masks, but 10 pairings) |
| `spanbert` | Joshi et al. 2020 | masked spans and their boundaries, single sequences |
| `electra` | Clark et al. 2020 | which tokens a small network replaced, full sentences |
| `deberta` | He et al. 2021 | masked n-grams through a mask decoder, full sentences |
| `deberta-v3` | He et al. 2023 | as `electra`, a decoder in the generator, tables added to |
| `xlnet` | Yang et al. 2019 | tokens in a random order, windows with a memory |
| `simcse` | Gao et al. 2021 | each sentence twice, told apart from all others |
"""

import dataclasses
import tomllib
from collections.abc import Callable

from clozeworks import config
from clozeworks.data.arrangements.pairs import NextSentencePairs, SentenceOrderPairs
from clozeworks.data.arrangements.remembered import RememberedBlocks
from clozeworks.data.arrangements.single_sequences import SingleSequences
from clozeworks.data.arrangements.views import Twice
from clozeworks.data.arrangements.whole_sentences import FullSentences
from clozeworks.errors import SettingError, UnknownName
from clozeworks.objectives.combine import Sum
from clozeworks.objectives.contrastive import Contrastive
from clozeworks.objectives.decoded_lm import DecodedLM
from clozeworks.objectives.generator import Generator
from clozeworks.objectives.masked_lm import MaskedLM
from clozeworks.objectives.next_sentence import NextSentence
from clozeworks.objectives.noise.ngrams import NGrams
from clozeworks.objectives.noise.whole_words import WholeWords
from clozeworks.objectives.objective import Objective
from clozeworks.objectives.permuted_lm import PermutedLM
from clozeworks.objectives.replaced_tokens import ReplacedTokens
from clozeworks.objectives.sentence_order import SentenceOrder
from clozeworks.objectives.span_boundary import SpanBoundary


def _bert(length: int) -> Objective:
    pairs = NextSentencePairs(length=length)
    return Sum(parts=(MaskedLM.bert(), NextSentence(arrangement=pairs)))


def _roberta(length: int) -> Objective:
    return dataclasses.replace(MaskedLM.roberta(), arrangement=FullSentences(length=length))


def _albert(length: int) -> Objective:
    pairs = SentenceOrderPairs(length=length)
    return Sum(parts=(MaskedLM.albert(), SentenceOrder(arrangement=pairs)))


def _spanbert(length: int) -> Objective:
    texts = SingleSequences(length=length)
    return Sum(parts=(dataclasses.replace(MaskedLM.spanbert(), arrangement=texts), SpanBoundary()))


def _electra(length: int) -> Objective:
    return ReplacedTokens(arrangement=FullSentences(length=length))


def _xlnet(length: int) -> Objective:
    return PermutedLM(arrangement=RememberedBlocks(length=length, memory=3 / 7), reuse=0.5)


def _deberta(length: int) -> Objective:
    grams = NGrams(longest=3)
    return DecodedLM(arrangement=FullSentences(length=length), hide=grams, positions=_room(length))


def _deberta_v3(length: int) -> Objective:
    return ReplacedTokens(
        arrangement=FullSentences(length=length),
        hide=WholeWords(),
        generator=Generator(width=1.0, layers=0.5, positions=_room(length)),
        sharing="disentangled",
    )


def _room(length: int) -> int:
    """Places of a mask decoder: the published ones, whatever shorter stages come first."""
    return max(512, length)


def _simcse(length: int) -> Objective:
    return Contrastive(arrangement=Twice(length=length))


# Name to what makes it, and the length the paper trains with at its end.
PUBLISHED: dict[str, tuple[Callable[[int], Objective], int]] = {
    "albert": (_albert, 512),
    "bert": (_bert, 512),
    "deberta": (_deberta, 512),
    "deberta-v3": (_deberta_v3, 512),
    "electra": (_electra, 512),
    "roberta": (_roberta, 512),
    "simcse": (_simcse, 32),
    "spanbert": (_spanbert, 512),
    "xlnet": (_xlnet, 896),  # windows of 512 tokens behind a memory of 384
}


def written(text: str, length: int | None = None) -> Objective:
    """An objective as a person writes it: a name, or a table as in a recipe.

    Args:
        text: `bert`, or `{kind = "masked_lm", arrangement = {kind = "blocks", length = 64}}`.
        length: The most tokens of an example, for a name.

    Raises:
        SettingError: The table cannot be read, or a length is given beside it.
        UnknownName: There is no such name.
    """
    if not text.lstrip().startswith("{"):
        return published(text, length)
    if length is not None:
        raise SettingError(
            f"length is {length}, but the objective is written out; state the length in its "
            "arrangement and leave this one out."
        )
    try:
        table = tomllib.loads(f"objective = {text}")["objective"]
    except tomllib.TOMLDecodeError as error:
        raise SettingError(
            f"objective is {text!r}, which is no table ({error}); write it as in a recipe: "
            '{kind = "masked_lm", arrangement = {kind = "blocks", length = 64}}.'
        ) from error
    objective: Objective = config.read(Objective, table, "objective")
    return objective


def published(name: str, length: int | None = None) -> Objective:
    """An objective as its paper has it.

    Args:
        name: One of the names above.
        length: The most tokens of an example; the paper's if not given.

    Raises:
        UnknownName: There is no such name.
    """
    if name not in PUBLISHED:
        raise UnknownName("objective", name, PUBLISHED)
    make, usual = PUBLISHED[name]
    return make(usual if length is None else length)
