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
| `gpt`, `gpt2` | Radford et al. 2018, 2019 | every token from those before it, by document |
| `llama` | Touvron et al. 2023 | the same, longer texts |
| `t5`, `mt5` | Raffel et al. 2020; Xue et al. 2021 | spans of 3 tokens, predicted by a decoder |
| `byt5` | Xue et al. 2022 | spans of 20 bytes, the last bytes as sentinels |
| `ul2` | Tay et al. 2022 | seven kinds of masks, and a token that says which |
| `prefix-lm` | Liu et al. 2018 | the second half of a text from the first |
"""

import dataclasses
import tomllib
from collections.abc import Callable

from clozeworks import config
from clozeworks.data.examples.blocks import Blocks
from clozeworks.data.examples.document_chunks import DocumentPieces
from clozeworks.data.examples.pairs import NextSentencePairs, SentenceOrderPairs
from clozeworks.data.examples.remembered import RememberedBlocks
from clozeworks.data.examples.single_sequences import SingleSequences
from clozeworks.data.examples.views import Twice
from clozeworks.data.examples.whole_sentences import FullSentences
from clozeworks.errors import SettingError, UnknownName
from clozeworks.objectives.causal_lm import CausalLM
from clozeworks.objectives.combine import Sum
from clozeworks.objectives.contrastive import Contrastive
from clozeworks.objectives.decoded_lm import DecodedLM
from clozeworks.objectives.denoisers import Denoisers
from clozeworks.objectives.masked_lm import MaskedLM
from clozeworks.objectives.next_sentence import NextSentence
from clozeworks.objectives.noise.alternating_spans import AlternatingSpans, raw_length
from clozeworks.objectives.noise.ngrams import NGrams
from clozeworks.objectives.noise.whole_words import WholeWords
from clozeworks.objectives.objective import Objective
from clozeworks.objectives.permuted_lm import PermutedLM
from clozeworks.objectives.prefix_lm import PrefixLM
from clozeworks.objectives.replaced_tokens import Generator, ReplacedTokens
from clozeworks.objectives.sentence_order import SentenceOrder
from clozeworks.objectives.span_boundary import SpanBoundary
from clozeworks.objectives.span_corruption import SpanCorruption

# ByT5's spans, in bytes.
BYTES = 20.0


def _bert(length: int) -> Objective:
    pairs = NextSentencePairs(length=length)
    return Sum(parts=(MaskedLM.bert(), NextSentence(examples=pairs)))


def _roberta(length: int) -> Objective:
    return dataclasses.replace(MaskedLM.roberta(), examples=FullSentences(length=length))


def _albert(length: int) -> Objective:
    pairs = SentenceOrderPairs(length=length)
    return Sum(parts=(MaskedLM.albert(), SentenceOrder(examples=pairs)))


def _spanbert(length: int) -> Objective:
    texts = SingleSequences(length=length)
    return Sum(parts=(dataclasses.replace(MaskedLM.spanbert(), examples=texts), SpanBoundary()))


def _xlnet(length: int) -> Objective:
    return PermutedLM(examples=RememberedBlocks(length=length, memory=3 / 7), reuse=0.5)


def _deberta(length: int) -> Objective:
    # A mask decoder has the published number of positions, whatever shorter stages come first.
    grams, positions = NGrams(longest=3), max(512, length)
    return DecodedLM(examples=FullSentences(length=length), hide=grams, positions=positions)


def _deberta_v3(length: int) -> Objective:
    return ReplacedTokens(
        examples=FullSentences(length=length),
        hide=WholeWords(),
        generator=Generator(width=1.0, layers=0.5, positions=max(512, length)),
        sharing="disentangled",
    )


def _causal(length: int) -> Objective:
    return CausalLM(examples=DocumentPieces(length=length))


def _t5(length: int) -> SpanCorruption:
    return SpanCorruption(examples=Blocks(length=length))


def _byt5(length: int) -> Objective:
    return dataclasses.replace(_t5(length), hide=AlternatingSpans(mean=BYTES), sentinels="bytes")


def _shown(inputs: int, mean: float) -> int:
    """The tokens of a text and its end that make inputs of a given length, 15 % masked."""
    return raw_length(inputs, 0.15, mean)[0] + 1


# Name to what makes it, and the length the paper trains with at its end.
PUBLISHED: dict[str, tuple[Callable[[int], Objective], int]] = {
    "albert": (_albert, 512),
    "bert": (_bert, 512),
    "byt5": (_byt5, _shown(1024, BYTES)),  # 1,194 for inputs of 1,024 bytes
    "deberta": (_deberta, 512),
    "deberta-v3": (_deberta_v3, 512),
    "electra": (lambda length: ReplacedTokens(examples=FullSentences(length=length)), 512),
    "gpt": (_causal, 512),
    "gpt2": (_causal, 1024),
    "llama": (_causal, 2048),
    "mt5": (_t5, _shown(1024, 3.0)),  # 1,138 for inputs of 1,024 tokens
    "prefix-lm": (lambda length: PrefixLM(examples=Blocks(length=length)), 512),
    "roberta": (_roberta, 512),
    "simcse": (lambda length: Contrastive(examples=Twice(length=length)), 32),
    "spanbert": (_spanbert, 512),
    "t5": (_t5, _shown(512, 3.0)),  # 569 for inputs of 512 tokens
    "ul2": (lambda length: Denoisers(examples=Blocks(length=length)), 512),
    "xlnet": (_xlnet, 896),  # windows of 512 tokens after a memory of 384
}


def written(text: str, length: int | None = None) -> Objective:
    """An objective as a person writes it: a name such as `bert`, or a table as in a recipe.

    Raises:
        SettingError: If the table cannot be read, or a length is given beside it.
        UnknownName: If no objective has this name.
    """
    if not text.lstrip().startswith("{"):
        return published(text, length)
    if length is not None:
        rule = "the objective is written out, with examples that state it"
        raise SettingError("length", length, rule, "leave it out")
    try:
        table = tomllib.loads(f"objective = {text}")["objective"]
    except tomllib.TOMLDecodeError as error:
        raise SettingError(
            "objective",
            text,
            f"it is not a table ({error})",
            "write it as in a recipe: "
            '{kind = "masked_lm", examples = {kind = "blocks", length = 64}}',
        ) from error
    objective: Objective = config.read(Objective, table, "objective")
    return objective


def published(name: str, length: int | None = None) -> Objective:
    """The objective of a paper, for examples of some length or of that of the paper.

    Raises:
        UnknownName: If no objective has this name.
    """
    if name not in PUBLISHED:
        raise UnknownName("objective", name, PUBLISHED)
    make, usual = PUBLISHED[name]
    return make(usual if length is None else length)
