"""Trains a new tokenizer from text. The same text gives the same bytes, in every process.

What the library's trainers leave open, and what is done here:

- *WordPiece*: continuing pieces (`##a`) get their ids in the order of a hash table, and ties
  between equally frequent pairs follow the ids. The whole alphabet is numbered beforehand.
- *Byte-level BPE*: the alphabet is the 256 bytes, sorted by the library; nothing is left open.
- *BPE over characters* (GPT): as for WordPiece, pieces that end a word are numbered beforehand.
- *Unigram*: floats are added in the order of a hash table. `unigram.py` is our own.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, trainers

from clozeworks.errors import SettingError, Stated, UnknownName
from clozeworks.text.tokenizer.styles import (
    ByteLevelStyle,
    CharacterPairStyle,
    Style,
    StyleKind,
    UnigramStyle,
    WordPieceStyle,
)
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.text.training.alphabet import choose_alphabet
from clozeworks.text.training.reading import (
    ReadingProgress,
    count_words,
    lines_of,
    no_progress,
    some,
)
from clozeworks.text.training.unigram import learn_pieces

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
    tell = progress or no_progress
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
    blocks = some(lines_of(texts))
    if isinstance(style, WordPieceStyle):
        backend = _wordpiece(blocks, size, style, min_frequency, tell)
    elif isinstance(style, ByteLevelStyle):
        backend = _byte_level(blocks, size, style, min_frequency, tell)
    elif isinstance(style, CharacterPairStyle):
        backend = _character_pairs(blocks, size, style, min_frequency, tell)
    else:
        backend = _unigram(blocks, size, style, min_frequency, tell)
    tell("learn", 1, 1)
    return Tokenizer(backend, special=style.special)


def _wordpiece(
    blocks: Iterable[list[str]],
    size: int,
    style: WordPieceStyle,
    min_frequency: int,
    progress: ReadingProgress,
) -> Backend:
    counted = count_words(blocks, style.normalizer(), style.pre_tokenizer())
    words = {w: n for w, n in sorted(counted.items()) if len(w) <= style.longest_word}
    progress("learn", 0, 1)
    characters: Counter[str] = Counter()
    inside: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            characters[character] += count
        inside.update(set(word[1:]))
    costs = {character: 2 if inside[character] else 1 for character in characters}
    leading = style.leading()
    alphabet = choose_alphabet(
        characters, costs, size=size, taken=len(leading), min_frequency=min_frequency
    )
    continuing = [style.prefix + character for character in alphabet if inside[character]]
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=min_frequency,
        show_progress=False,
        # Trap: the trainer numbers continuing characters in the order of a hash table, unless it
        # meets them here; this backend is thrown away, so nothing else comes of it.
        special_tokens=[*leading, *alphabet, *continuing],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        continuing_subword_prefix=style.prefix,
    )
    learner = Backend(models.WordPiece(unk_token=style.special.unknown or "[UNK]"))
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    learner.train_from_iterator(_repeated(words, frozenset(alphabet)), trainer)
    return style.build(learner.get_vocab(with_added_tokens=True))


def _repeated(words: dict[str, int], alphabet: frozenset[str]) -> Iterator[str]:
    for word, count in words.items():
        # A word with a character that was left out will be unknown, and must teach nothing.
        if alphabet.issuperset(word):
            for done in range(0, count, REPEATED):
                yield (word + " ") * min(REPEATED, count - done)


def _byte_level(
    blocks: Iterable[list[str]],
    size: int,
    style: ByteLevelStyle,
    min_frequency: int,
    progress: ReadingProgress,
) -> Backend:
    leading, trailing = style.leading(), style.trailing()
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    least = len(symbols) + len(leading) + len(trailing)
    if size < least:
        raise SettingError(
            "size",
            size,
            f"the special tokens and the {len(symbols)} bytes need {least:,}",
            f"raise size to at least {least:,}",
        )
    trainer = trainers.BpeTrainer(
        vocab_size=size - len(trailing),
        min_frequency=min_frequency,
        show_progress=False,
        special_tokens=list(leading),
        initial_alphabet=symbols,
    )
    learner = Backend(models.BPE())
    learner.pre_tokenizer = style.pre_tokenizer()
    learner.train_from_iterator(_until_learning(blocks, progress), trainer)
    vocabulary = learner.get_vocab(with_added_tokens=True)
    for name in trailing:
        vocabulary[name] = len(vocabulary)
    merges = _merges(learner)
    return style.build(vocabulary, merges)


def _character_pairs(
    blocks: Iterable[list[str]],
    size: int,
    style: CharacterPairStyle,
    min_frequency: int,
    progress: ReadingProgress,
) -> Backend:
    words = dict(sorted(count_words(blocks, style.normalizer(), style.pre_tokenizer()).items()))
    progress("learn", 0, 1)
    characters: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            characters[character] += count
    leading = style.leading()
    # Every character may stand inside a word and at its end.
    alphabet = choose_alphabet(
        characters,
        dict.fromkeys(characters, 2),
        size=size,
        taken=len(leading),
        min_frequency=min_frequency,
    )
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=min_frequency,
        show_progress=False,
        special_tokens=[*leading, *alphabet, *(sign + style.ending for sign in alphabet)],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        end_of_word_suffix=style.ending,
    )
    learner = Backend(models.BPE(end_of_word_suffix=style.ending))
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    learner.train_from_iterator(_repeated(words, frozenset(alphabet)), trainer)
    return style.build(learner.get_vocab(with_added_tokens=True), _merges(learner))


def _merges(learner: Backend) -> list[tuple[str, str]]:
    state = Tokenizer(learner).state["model"]["merges"]
    pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in state]
    return [(pair[0], pair[1]) for pair in pairs]


def _until_learning(blocks: Iterable[list[str]], progress: ReadingProgress) -> Iterator[list[str]]:
    yield from blocks
    progress("learn", 0, 1)


def _unigram(
    blocks: Iterable[list[str]],
    size: int,
    style: UnigramStyle,
    min_frequency: int,
    progress: ReadingProgress,
) -> Backend:
    counted = count_words(blocks, style.normalizer(), style.pre_tokenizer())
    progress("learn", 0, 1)
    stretches: Counter[str] = Counter()
    for word, count in counted.items():
        for begin in range(0, len(word), LONGEST_STRETCH):
            stretches[word[begin : begin + LONGEST_STRETCH]] += count
    characters: Counter[str] = Counter()
    for word, count in stretches.items():
        for character in word:
            characters[character] += count
    leading, trailing = style.leading(), style.trailing()
    special = (*leading, *trailing)
    alphabet = choose_alphabet(
        characters,
        dict.fromkeys(characters, 1),
        size=size,
        taken=len(special),
        min_frequency=min_frequency,
    )
    # An unknown character stands alone as unknown; what is on its two sides still teaches.
    known = re.compile(f"[{re.escape(''.join(alphabet))}]+")
    usable: Counter[str] = Counter()
    for word, count in stretches.items():
        for part in known.findall(word):
            usable[part] += count
    words: dict[str, int] = {}
    held = 0
    for word, count in sorted(usable.items(), key=lambda item: (-item[1], item[0])):
        held += len(word)
        if held > CHARACTERS and words:
            break
        words[word] = count
    chosen = sorted(words)
    pieces = learn_pieces(
        chosen,
        [words[word] for word in chosen],
        alphabet,
        size - len(special),
        min_frequency,
        frozenset(special),
    )
    first, last = ([(name, 0.0) for name in names] for names in (leading, trailing))
    return style.build([*first, *pieces, *last])
