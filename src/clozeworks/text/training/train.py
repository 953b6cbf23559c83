"""Trains a new tokenizer from text. The same text gives the same bytes, in every process.

What the library's trainers leave open, and what is done here:

- *WordPiece*: continuing pieces (`##a`) get their ids in the order of a hash table, and ties
  between equally frequent pairs follow the ids. The whole alphabet is numbered beforehand.
- *Byte-level BPE*: the alphabet is the 256 bytes, sorted by the library; nothing is left open.
- *BPE over characters* (GPT): as for WordPiece, pieces that end a word are numbered beforehand.
- *BPE with bytes for the rest* (Mistral): characters that are left out break a word in two.
- *Unigram*: floats are added in the order of a hash table. `unigram.py` is our own.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, trainers

from clozeworks.errors import SettingError, Stated, UnknownName
from clozeworks.text.tokenizer.styles import (
    ByteLevelStyle,
    CharacterPairStyle,
    FallbackPairStyle,
    Style,
    StyleKind,
    UnigramStyle,
    WordPieceStyle,
)
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.text.training.unigram import learn_pieces
from clozeworks.text.training.word_counts import (
    ReadingProgress,
    count_words,
    lines_of,
    no_progress,
)

STYLES: dict[str, type[WordPieceStyle] | type[ByteLevelStyle] | type[UnigramStyle]] = {
    "wordpiece": WordPieceStyle,
    "bpe": ByteLevelStyle,
    "unigram": UnigramStyle,
}
# A word is handed to the library as often as it occurs, this many at a time.
REPEATED = 10_000
# Unigram: longer stretches are cut, and the most frequent words up to this many characters count.
LONGEST_STRETCH = 64
CHARACTERS = 4_000_000
# Characters are kept while they fill at most this fraction of the vocabulary, ...
ALPHABET_FRACTION = Fraction(3, 4)
# ... but never so few that less than this fraction of the text can be written.
COVERED = Fraction(995, 1000)


def train_from_iterator(
    texts: Iterable[str],
    *,
    kind: StyleKind,
    size: int,
    style: Style | None = None,
    min_frequency: int = 2,
    progress: ReadingProgress | None = None,
) -> Tokenizer:
    """Trains a tokenizer from texts.

    Args:
        texts: The texts; their order does not matter.
        kind: "wordpiece" (BERT), "bpe" (byte-level, RoBERTa) or "unigram" (ALBERT, T5).
        size: Entries of the vocabulary; fewer only if the text has no more to offer.
        style: How text is written; the kind's usual style if None.
        min_frequency: How often a new piece must occur.
        progress: Called with "learn", 0, 1 when all texts are read, and "learn", 1, 1 at the end.

    Raises:
        InputError: If a text cannot be used, or there is no text.
        SettingError: If a setting is impossible; of a size the message names the smallest possible.
    """
    if kind not in STYLES:
        raise UnknownName("kind", kind, STYLES)
    style = style or STYLES[kind]()
    if style.kind != kind:
        raise SettingError(
            "style",
            Stated(type(style).__name__),
            f"`kind` is {kind!r}, whose style is {STYLES[kind].__name__}",
            "give that one or none",
        )
    if min_frequency < 1:
        raise SettingError("min_frequency", min_frequency, "it must be at least 1", "raise it")
    text = _Text(lines_of(texts), size, min_frequency, progress or no_progress)
    if isinstance(style, WordPieceStyle):
        backend = _wordpiece(text, style)
    elif isinstance(style, ByteLevelStyle):
        backend = _byte_level(text, style)
    elif isinstance(style, CharacterPairStyle):
        backend = _character_pairs(text, style)
    elif isinstance(style, FallbackPairStyle):
        backend = _fallback_pairs(text, style)
    else:
        backend = _unigram(text, style)
    text.progress("learn", 1, 1)
    return Tokenizer(backend, special=style.special)


@dataclass(frozen=True)
class _Text:
    """The training text, and what is asked of the vocabulary."""

    blocks: Iterable[list[str]]
    size: int
    min_frequency: int
    progress: ReadingProgress

    def words(
        self, style: WordPieceStyle | CharacterPairStyle | FallbackPairStyle | UnigramStyle
    ) -> Counter[str]:
        """How often each word occurs."""
        words = count_words(self.blocks, style.normalizer(), style.pre_tokenizer())
        self.progress("learn", 0, 1)
        return words

    def lines(self) -> Iterator[list[str]]:
        """The lines of each text."""
        yield from self.blocks
        self.progress("learn", 0, 1)

    def alphabet(self, characters: Counter[str], taken: int, costs: Mapping[str, int]) -> list[str]:
        """The characters that the vocabulary shall write."""
        return choose_alphabet(
            characters, costs, size=self.size, taken=taken, min_frequency=self.min_frequency
        )

    def trainer_settings(self, special: Sequence[str], alphabet: list[str]) -> dict[str, Any]:
        """What trainers of the library have in common."""
        return {
            "vocab_size": self.size,
            "min_frequency": self.min_frequency,
            "show_progress": False,
            "special_tokens": list(special),
            "initial_alphabet": alphabet,
        }


def choose_alphabet(
    characters: Counter[str],
    costs: Mapping[str, int],
    *,
    size: int,
    taken: int,
    min_frequency: int,
) -> list[str]:
    """Chooses characters, the most frequent first, and gives them sorted.

    Args:
        characters: How often each occurs.
        costs: Vocabulary entries each one needs, 1 if not stated.
        size: Entries of the whole vocabulary.
        taken: Entries the special tokens need.
        min_frequency: Rarer characters are left out.

    Raises:
        SettingError: If the size has no room for the characters that make up the text.
    """
    total = sum(characters.values())
    room = max(int(size * ALPHABET_FRACTION), taken)
    used, seen, needed_size = taken, 0, taken
    chosen: list[str] = []
    # Trap: ties must not fall to the order of a hash table.
    for character, count in sorted(characters.items(), key=lambda item: (-item[1], item[0])):
        needed = seen < total * COVERED
        cost = costs.get(character, 1)
        if not needed and (count < min_frequency or used + cost > room):
            break
        chosen.append(character)
        used += cost
        seen += count
        if needed:
            needed_size = used
    what = f"the characters that make up {float(COVERED):.1%} of the text"
    _check_size(size, needed_size, what)
    return sorted(chosen)


def _check_size(size: int, needed: int, what: str) -> None:
    if size < needed:
        raise SettingError(
            "size",
            size,
            f"the special tokens and {what} need {needed:,}",
            f"raise size to at least {needed:,}",
        )


def _characters(words: Mapping[str, int]) -> Counter[str]:
    characters: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            characters[character] += count
    return characters


def _wordpiece(text: _Text, style: WordPieceStyle) -> Backend:
    counted = text.words(style)
    words = {w: n for w, n in sorted(counted.items()) if len(w) <= style.longest_word}
    inside = {character for word in words for character in word[1:]}
    leading = style.leading()
    alphabet = text.alphabet(_characters(words), len(leading), dict.fromkeys(inside, 2))
    continuing = [style.prefix + character for character in alphabet if character in inside]
    trainer = trainers.WordPieceTrainer(
        # Trap: the trainer numbers continuing characters in the order of a hash table, unless it
        # meets them here; this backend is thrown away, so nothing else comes of it.
        **text.trainer_settings([*leading, *alphabet, *continuing], alphabet),
        limit_alphabet=len(alphabet),
        continuing_subword_prefix=style.prefix,
    )
    model = models.WordPiece(unk_token=style.special.unknown or "[UNK]")
    return style.build(_learner(model, trainer, words, alphabet).get_vocab())


def _learner(
    model: models.Model, trainer: trainers.Trainer, words: Mapping[str, int], alphabet: list[str]
) -> Backend:
    """A model that learned from words as often as they occur."""
    learner = Backend(model)
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    learner.train_from_iterator(_repeated(words, frozenset(alphabet)), trainer)
    return learner


def _repeated(words: Mapping[str, int], alphabet: frozenset[str]) -> Iterator[str]:
    for word, count in words.items():
        # A word with a character that was left out will be unknown, and must teach nothing.
        if alphabet.issuperset(word):
            for done in range(0, count, REPEATED):
                yield (word + " ") * min(REPEATED, count - done)


def _merges(learner: Backend) -> list[tuple[str, str]]:
    state = Tokenizer(learner).state["model"]["merges"]
    pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in state]
    return [(pair[0], pair[1]) for pair in pairs]


def _byte_level(text: _Text, style: ByteLevelStyle) -> Backend:
    leading, trailing = style.leading(), style.trailing()
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    needed = len(symbols) + len(leading) + len(trailing)
    _check_size(text.size, needed, f"the {len(symbols)} bytes")
    settings = text.trainer_settings(leading, symbols)
    trainer = trainers.BpeTrainer(**{**settings, "vocab_size": text.size - len(trailing)})
    learner = Backend(models.BPE())
    if (normalizer := style.normalizer()) is not None:
        learner.normalizer = normalizer
    learner.pre_tokenizer = style.pre_tokenizer()
    learner.train_from_iterator(text.lines(), trainer)
    vocabulary = learner.get_vocab()
    for name in trailing:
        vocabulary[name] = len(vocabulary)
    return style.build(vocabulary, _merges(learner))


def _character_pairs(text: _Text, style: CharacterPairStyle) -> Backend:
    words = dict(sorted(text.words(style).items()))
    characters = _characters(words)
    leading = style.leading()
    # Every character may stand inside a word and at its end.
    alphabet = text.alphabet(characters, len(leading), dict.fromkeys(characters, 2))
    last = [character + style.ending for character in alphabet]
    trainer = trainers.BpeTrainer(
        **text.trainer_settings([*leading, *alphabet, *last], alphabet),
        limit_alphabet=len(alphabet),
        end_of_word_suffix=style.ending,
    )
    learner = _learner(models.BPE(end_of_word_suffix=style.ending), trainer, words, alphabet)
    return style.build(learner.get_vocab(), _merges(learner))


def _fallback_pairs(text: _Text, style: FallbackPairStyle) -> Backend:
    counted = text.words(style)
    leading = style.leading()
    alphabet = text.alphabet(_characters(counted), len(leading), {})
    words = dict(sorted(_known_parts(counted, alphabet).items()))
    settings = text.trainer_settings([*leading, *alphabet], alphabet)
    trainer = trainers.BpeTrainer(**settings, limit_alphabet=len(alphabet))
    learner = _learner(models.BPE(), trainer, words, alphabet)
    return style.build(learner.get_vocab(), _merges(learner))


def _known_parts(words: Mapping[str, int], alphabet: Sequence[str]) -> Counter[str]:
    """What is left of words where characters outside the alphabet break them."""
    known = re.compile(f"[{re.escape(''.join(alphabet))}]+")
    parts: Counter[str] = Counter()
    for word, count in words.items():
        for part in known.findall(word):
            parts[part] += count
    return parts


def _unigram(text: _Text, style: UnigramStyle) -> Backend:
    stretches: Counter[str] = Counter()
    for word, count in text.words(style).items():
        for begin in range(0, len(word), LONGEST_STRETCH):
            stretches[word[begin : begin + LONGEST_STRETCH]] += count
    leading, trailing = style.leading(), style.trailing()
    special = (*leading, *trailing)
    alphabet = text.alphabet(_characters(stretches), len(special), {})
    # An unknown character stands alone as unknown; what is on its two sides still teaches.
    usable = _known_parts(stretches, alphabet)
    words: dict[str, int] = {}
    held = 0
    for word, count in sorted(usable.items(), key=lambda item: (-item[1], item[0])):
        held += len(word)
        if held > CHARACTERS and words:
            break
        words[word] = count
    words = dict(sorted(words.items()))
    pieces = learn_pieces(
        words, alphabet, text.size - len(special), text.min_frequency, frozenset(special)
    )
    first, last = ([(name, 0.0) for name in names] for names in (leading, trailing))
    return style.build([*first, *pieces, *last])
