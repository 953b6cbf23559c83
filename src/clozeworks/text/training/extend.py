"""Adds pieces to a tokenizer's model, for text its vocabulary was not made for.

Paper: Gee et al. 2022 (new rows from the pieces a new one stood for); Purason et al. 2025 (merges
learnt on from where BPE training stopped).
The idea: words of another field or language fall into many pieces. The runs of pieces that cost
most on given text become pieces of the model itself, after all others, so that no old id changes.
They are not `added_tokens`, which are searched for in every text before it is cut into words: that
is slow, matches inside words, and hides where words begin.

How each kind comes to use a new piece:

- *WordPiece* takes the longest piece that fits, so it need only be there. It then also stands in
  longer words that begin like it.
- *Byte-level BPE* needs the merges that lead to it. They stand after all old ones, which therefore
  act first: a word is cut as before, and then pieces of it are joined.
- *Unigram* takes the likeliest cut. A new piece is as likely as its parts together and a hair more,
  so a word is cut as before, and then runs of it are one piece.

Where a tokenizer makes every Chinese character a word, only characters that it lacks can be added.
"""

import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from tokenizers import Tokenizer as Backend

from clozeworks.errors import InputError, SettingError, UnsupportedError
from clozeworks.text.tokenizer.bytes import are_bytes
from clozeworks.text.tokenizer.library import FAILS, library
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.text.training.fusing import FewestFused, Fusing, LongestFirst, most_frequent
from clozeworks.text.training.merging import MergePair, learn_merges
from clozeworks.text.training.word_counts import WordCounter
from clozeworks.wording import counted

LEAST = 5
# How much likelier than its parts a fused piece is, for each part it saves. Less than any real
# difference between two cuts, more than single precision loses.
HAIR = 1e-3
# Byte-level BPE: pieces of words in all, the most frequent first. It bounds time and memory.
MERGED_PIECES = 1_000_000
# How Unigram writes the space before a word.
SPACE = "▁"
# Unigram: pieces of a stretch. Longer ones, as in languages without spaces, are cut.
LONGEST_STRETCH = 16
# Above this share of Chinese characters it is worth saying that each is a word of its own.
CHINESE_SHARE = 0.2


@dataclass(frozen=True)
class ExtensionCost:
    """What a text costs under a tokenizer."""

    words: int
    """Words, as the tokenizer sees them."""
    tokens: int
    """Tokens they are cut into."""
    unknown: int
    """Tokens among them that stand for what the vocabulary cannot write."""

    @property
    def tokens_per_word(self) -> float:
        """Tokens of a word, on average."""
        return self.tokens / max(self.words, 1)

    @property
    def unknown_share(self) -> float:
        """Unknown ones among the tokens."""
        return self.unknown / max(self.tokens, 1)


@dataclass(frozen=True)
class Extension:
    """A tokenizer with new pieces."""

    tokenizer: Tokenizer
    """The new tokenizer; its old pieces have their old ids."""
    pieces: list[str]
    """The new pieces, by id: the first has the id that was the old tokenizer's size."""
    replaced: list[list[int]]
    """For each new piece the old ids it stood for."""
    before: ExtensionCost
    """What the text cost."""
    after: ExtensionCost
    """What it costs now."""
    note: str = ""
    """What a person should know, or nothing."""


@dataclass(frozen=True)
class _Chosen:
    """New pieces with the old ids they stood for, and what the model needs to use them."""

    replaced: dict[str, list[int]]
    merges: Sequence[MergePair] = ()
    scores: Sequence[float] = ()


# The ids of each word.
Cuts = Mapping[str, tuple[int, ...]]
ExtensionMethod = Callable[[Tokenizer, Counter[str], Cuts, int, int], _Chosen]


@library("the tokenizer", FAILS)
def extend(
    tokenizer: Tokenizer, texts: Iterable[str], count: int, *, least: int = LEAST
) -> Extension:
    """Adds the pieces that save most tokens on a text.

    The same text gives the same pieces; equals are decided by their spelling.

    Args:
        tokenizer: WordPiece, byte-level BPE or Unigram. It is left as it is.
        texts: Text of the new kind.
        count: The most pieces to add; fewer if no more are worth it.
        least: How often a piece must be used in the text.

    Raises:
        InputError: If there is no text, or it is not valid; or nothing is worth adding.
        SettingError: If a number is below 1.
        UnsupportedError: If the tokenizer is of another kind.
    """
    for name, value in (("count", count), ("least", least)):
        if value < 1:
            raise SettingError(name, value, "it must be at least 1", "raise it")
    choose = _method(tokenizer)
    if isinstance(texts, str):
        raise InputError("texts is one str; it must be an iterable of str; put it in a list.")
    counter = WordCounter(tokenizer)
    for text in texts:
        counter.add(text)
    words = counter.words()
    if not words:
        raise InputError(
            "the text is empty; new pieces come from the words of a text; give files with text."
        )
    cuts = _cuts(tokenizer, words)
    chosen = choose(tokenizer, words, cuts, count, least)
    note = _note(tokenizer, words)
    if not chosen.replaced:
        raise InputError(
            f"nothing is worth adding: no piece that is missing would be used "
            f"{counted(least, 'time')} in {counted(words.total(), 'word')}; give more text, or "
            "lower least (--least)." + (note and f" {note}")
        )
    extended = _built(tokenizer, chosen)
    return Extension(
        extended,
        list(chosen.replaced),
        list(chosen.replaced.values()),
        _cost(tokenizer, words, cuts),
        _cost(extended, words, _checked(tokenizer, extended, cuts)),
        note,
    )


def measure(tokenizer: Tokenizer, words: Mapping[str, int]) -> ExtensionCost:
    """What words, counted by a `WordCounter`, cost under a tokenizer."""
    return _cost(tokenizer, words, _cuts(tokenizer, words))


def _method(tokenizer: Tokenizer) -> ExtensionMethod:
    """How pieces for a tokenizer of this kind are chosen."""
    model, kind = tokenizer.state["model"], tokenizer.kind
    if kind == "wordpiece":
        return _wordpiece
    if kind == "unigram":
        if model["unk_id"] is not None:
            return _unigram
        kind = "unigram without an unknown token"
    if kind == "bpe":
        if '"ByteLevel"' not in json.dumps(tokenizer.state["pre_tokenizer"]):
            kind = "bpe that is not byte-level"
        elif are_bytes(tokenizer.state):  # with a piece more it would be no ByT5
            kind = "bytes alone"
        else:
            return _byte_level
    raise UnsupportedError(
        f"the tokenizer is {kind}; pieces can be added to wordpiece, byte-level bpe and unigram; "
        "train a tokenizer for this text instead: clozeworks tokenizer train."
    )


def _wordpiece(
    tokenizer: Tokenizer, words: Counter[str], cuts: Cuts, count: int, min_frequency: int
) -> _Chosen:
    model = tokenizer.state["model"]
    prefix, longest = model["continuing_subword_prefix"], model["max_input_chars_per_word"]
    fewer = {word: number for word, number in words.items() if len(word) <= longest}
    fusing = Fusing(fewer, LongestFirst(model["vocab"], prefix), min_frequency)
    old = LongestFirst(model["vocab"], prefix)
    replaced = {}
    for piece in fusing.choose(count, tokenizer.vocabulary().keys()):
        inside = bool(prefix) and piece.startswith(prefix)
        text = piece.removeprefix(prefix) if inside else piece
        ends = [0, *old.cut(text, inside=inside)]
        parts = [text[begin:end] for begin, end in pairwise(ends)]
        marked = [part if not (n or inside) else prefix + part for n, part in enumerate(parts)]
        known = (tokenizer.id_of(part) for part in marked)
        replaced[piece] = [_unknown(tokenizer) if part is None else part for part in known]
    return _Chosen(replaced)


def _byte_level(
    tokenizer: Tokenizer, words: Counter[str], cuts: Cuts, count: int, min_frequency: int
) -> _Chosen:
    pieces = tokenizer.vocabulary()
    spelled = {number: piece for piece, number in pieces.items()}
    by_cut: Counter[tuple[str, ...]] = Counter()
    held = 0
    for word, number in most_frequent(words):
        cut = tuple(spelled[token] for token in cuts[word])
        if len(cut) > 1 and "".join(cut) == word:  # all of it could be written
            by_cut[cut] += number
            held += len(cut)
        if held > MERGED_PIECES:
            break
    merges = learn_merges(by_cut, pieces.keys(), count, min_frequency)
    replaced: dict[str, list[int]] = {}
    for pair in merges:
        sides = (replaced[side] if side in replaced else [pieces[side]] for side in pair)
        replaced["".join(pair)] = [token for side in sides for token in side]
    return _Chosen(replaced, merges=merges)


def _unigram(
    tokenizer: Tokenizer, words: Counter[str], cuts: Cuts, count: int, min_frequency: int
) -> _Chosen:
    model = tokenizer.state["model"]
    unknown, scores = model["unk_id"], [score for _, score in model["vocab"]]
    tokenize = Backend.from_str(json.dumps(tokenizer.state)).model.tokenize

    def parts(word: str) -> list[tuple[int, str]]:
        """The pieces of a word; what cannot be written, character by character."""
        return [
            (token.id, part)
            for token in tokenize(word)
            for part in (token.value if token.id == unknown else [token.value])
        ]

    stretches: Counter[str] = Counter()
    ends: dict[str, list[int]] = {}
    for word, number in words.items():
        if len(cuts[word]) > 1 or unknown in cuts[word]:
            for texts in _stretches([text for _, text in parts(word)]):
                stretch = "".join(texts)
                stretches[stretch] += number
                ends[stretch] = list(accumulate(map(len, texts)))
    fusing = Fusing(stretches, FewestFused(dict(model["vocab"]), ends), min_frequency)
    replaced, likely = {}, []
    for piece in fusing.choose(count, tokenizer.vocabulary().keys()):
        replaced[piece] = [number for number, _ in parts(piece)]
        # Above the score of the unknown token, which lies below the lowest of all pieces.
        each = [min(scores) if n == unknown else scores[n] for n in replaced[piece]]
        likely.append(sum(each) + HAIR * (len(each) - 1))
    return _Chosen(replaced, scores=likely)


def _stretches(parts: Sequence[str]) -> Iterator[list[str]]:
    """Cuts the pieces of a word where letters, digits and other characters meet.

    Compat: SentencePiece learns no piece across these, and its words have their commas with them.
    """
    stretch: list[str] = []
    before = ""
    for part in parts:
        kinds = {_kind(character) for character in part if character != SPACE}
        kind = kinds.pop() if len(kinds) == 1 else "mixed" if kinds else before
        begins = part.startswith(SPACE) or "mixed" in (kind, before)
        if stretch and (begins or (before and kind != before) or len(stretch) == LONGEST_STRETCH):
            yield stretch
            stretch = []
        stretch.append(part)
        before = kind
    yield stretch


def _kind(character: str) -> str:
    mark = unicodedata.category(character)[0]
    return "letter" if mark in "LM" else "digit" if mark == "N" else "other"


def _built(tokenizer: Tokenizer, chosen: _Chosen) -> Tokenizer:
    """The tokenizer with new pieces, and with all its old tokens in the model.

    Trap: tokens that stand beside the model are numbered after it whenever it is loaded, so they
    would get other ids as the model grows.
    """
    model = dict(tokenizer.state["model"])
    vocabulary = model["vocab"]
    if isinstance(vocabulary, dict):
        numbered = {piece: n for n, piece in enumerate(chosen.replaced, tokenizer.size)}
        model["vocab"] = {**vocabulary, **tokenizer.vocabulary(), **numbered}
    else:
        lowest = min(score for _, score in vocabulary)
        beside = [(piece, lowest) for piece in list(tokenizer.vocabulary())[len(vocabulary) :]]
        assert len(vocabulary) + len(beside) == tokenizer.size, "Unigram ids have no gaps"
        scored = zip(chosen.replaced, chosen.scores, strict=True)
        model["vocab"] = [*vocabulary, *beside, *scored]
    if chosen.merges:
        model["merges"] = [*model["merges"], *chosen.merges]
    backend = Backend.from_str(json.dumps({**tokenizer.state, "model": model}))
    return Tokenizer(backend, special=tokenizer.special, config=tokenizer._config)


def _checked(tokenizer: Tokenizer, extended: Tokenizer, cuts: Cuts) -> Cuts:
    """The words under the new tokenizer; those without a new piece must be cut as before."""
    after = _cuts(extended, cuts)
    for word, ids in after.items():
        if ids != cuts[word] and max(ids) < tokenizer.size:
            raise UnsupportedError(
                f"the word {word!r} would be cut otherwise than before although no new piece is in "
                f"it (as {extended.decode(ids)!r}); an added token of the tokenizer has its "
                "spelling; remove that token first, or take the word out of the text."
            )
    return after


def _cuts(tokenizer: Tokenizer, words: Iterable[str]) -> Cuts:
    model = dict(tokenizer.state["model"])
    if "dropout" in model:
        model["dropout"] = None  # else merges are left out at random
    tokenize = Backend.from_str(json.dumps({**tokenizer.state, "model": model})).model.tokenize
    return {word: tuple(token.id for token in tokenize(word)) for word in words}


def _cost(tokenizer: Tokenizer, words: Mapping[str, int], cuts: Cuts) -> ExtensionCost:
    unknown = _unknown(tokenizer)
    tokens = sum(count * len(cuts[word]) for word, count in words.items())
    lost = sum(count * cuts[word].count(unknown) for word, count in words.items())
    return ExtensionCost(sum(words.values()), tokens, lost)


def _unknown(tokenizer: Tokenizer) -> int:
    """The id the model gives to what it cannot write; -1 if it can write everything."""
    model = tokenizer.state["model"]
    if "unk_id" in model:
        return -1 if model["unk_id"] is None else int(model["unk_id"])
    return int(model["vocab"].get(model["unk_token"], -1))


def _note(tokenizer: Tokenizer, words: Counter[str]) -> str:
    counter = WordCounter(tokenizer)
    counter.add("中文")
    chinese = sum(n for word, n in words.items() if len(word) == 1 and "一" <= word <= "鿿")
    if len(counter.words()) < 2 or chinese < CHINESE_SHARE * words.total():
        return ""
    return (
        "For this tokenizer each Chinese character is a word of its own, so of Chinese only "
        "characters that it lacks can be added."
    )
