"""Which tokens begin a word, for objectives that hide whole words.

The idea: how a vocabulary writes its pieces says which of them begin a word, so one table per
tokenizer answers for every text. Chinese characters are words of their own there; who wants whole
Chinese words asks a segmenter, sentence by sentence.

Where the papers' code differs: BERT's marks pieces that continue a word (`##`), RoBERTa's (fairseq)
pieces with the space before a word (`Ġ`), ALBERT's pieces with `▁` and whatever is not written in
English letters.
"""

import json
import re
import string
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from clozeworks.errors import MissingExtra, UnknownName, UnsupportedError
from clozeworks.text.tokenizer.bytes import BYTES
from clozeworks.text.tokenizer.tokenizer import Tokenizer

_SPACE = "Ġ"
_METASPACE = "▁"
# Compat: the marks of ALBERT's code. The apostrophe and `<=>` are not among them, so that `'s`
# begins a word there.
_ALBERT_MARKS = frozenset(string.punctuation) - set("'<=>") | set("€£")
_ALBERT_INSIDE = _ALBERT_MARKS | set(string.ascii_letters)
_FALLBACK_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def word_starts(tokenizer: Tokenizer) -> NDArray[np.bool_]:
    """Says of each token whether it begins a word.

    The first token of a sentence begins a word whatever the table says: byte-level vocabularies
    write it without the mark. The caller sees to that, because a table knows no sentences.

    Returns:
        One truth value per id, `tokenizer.size` of them. Special and added tokens begin words, and
        so do ids without a token.

    Raises:
        UnsupportedError: If the vocabulary marks where words end, or marks nothing.
    """
    begins = _rule(tokenizer)
    starts = np.ones(tokenizer.size, dtype=np.bool_)
    for piece, token_id in tokenizer.vocabulary().items():
        starts[token_id] = begins(piece)
    starts[[added["id"] for added in tokenizer.state["added_tokens"]]] = True
    named = map(tokenizer.id_of, tokenizer.special.names())
    starts[[token_id for token_id in named if token_id is not None]] = True
    return starts


def _rule(tokenizer: Tokenizer) -> Callable[[str], bool]:
    """Chooses how the pieces of a vocabulary show where words begin."""
    state = tokenizer.state
    model = state["model"]
    prefix = model.get("continuing_subword_prefix")
    if prefix and tokenizer.kind in ("wordpiece", "bpe"):
        return lambda piece: not piece.startswith(prefix)
    if tokenizer.kind in ("wordpiece", "wordlevel"):
        return lambda piece: True  # no piece continues a word
    if '"ByteLevel"' in json.dumps([state["pre_tokenizer"], state["decoder"]]):
        return _begins_byte_level
    if tokenizer.kind == "unigram" or _METASPACE in tokenizer.vocabulary():
        return _begins_metaspace
    suffix = model.get("end_of_word_suffix")
    marks = f"marks where words end ({suffix!r})" if suffix else "marks no words"
    raise UnsupportedError(
        f"the vocabulary {marks}; to hide whole words, its pieces must show where words begin; use "
        "a WordPiece, byte-level BPE or unigram tokenizer, or hide single tokens."
    )


def _begins_byte_level(piece: str) -> bool:
    # Paper: fairseq asks for the space alone. Chinese and Japanese write none, and would be one
    # word per sentence; each of their characters begins a word here.
    return piece.startswith(_SPACE) or _begins_wide([BYTES.get(mark, 0) for mark in piece[:2]])


def _begins_wide(bytes_: Sequence[int]) -> bool:
    """Says whether UTF-8, of which a piece may hold a part, begins with an East Asian character."""
    first, second = (*bytes_, None, None)[:2]
    if first == 0xE2:  # radicals; the curly quotes and dashes beside them are of all languages
        return second is not None and second >= 0xBA
    if first == 0xEF:  # compatibility ideographs and full-width forms, not Arabic and selectors
        return second is None or 0xA4 <= second <= 0xAB or second >= 0xBC
    if first == 0xF0:  # rare ideographs, not emoji
        return second is not None and second >= 0xA0
    # Punctuation, kana, ideographs, Hangul.
    return first is not None and 0xE3 <= first <= 0xED


def _begins_metaspace(piece: str) -> bool:
    if byte := _FALLBACK_BYTE.fullmatch(piece):
        return not 0x80 <= int(byte[1], 16) <= 0xBF
    return (
        piece.startswith((_METASPACE, "<"))
        or piece in _ALBERT_MARKS
        or not _ALBERT_INSIDE.issuperset(piece)
    )


class Segmenter(Protocol):
    """Knows the words of a language that writes no spaces."""

    def words(self, sentence: str) -> Sequence[str]:
        """Cuts a sentence into words; joined they are the sentence, white space and all."""
        ...


def segmenter(name: str) -> Segmenter:
    """Gives a segmenter (`jieba`, for Chinese); its dictionary is read when it is first asked.

    Raises:
        UnknownName: If there is no such segmenter.
        MissingExtra: If the library of the segmenter is not installed.
    """
    if name not in _SEGMENTERS:
        raise UnknownName("segmenter", name, _SEGMENTERS)
    return _SEGMENTERS[name]()


def segmented_starts(
    segmenter: Segmenter, sentence: str, offsets: Sequence[tuple[int, int]]
) -> NDArray[np.bool_]:
    """Says of each token of a sentence whether it begins one of the segmenter's words.

    Args:
        segmenter: Knows the words.
        sentence: The sentence.
        offsets: The characters of each token, begin and end. Where several tokens share a
            character, as parts of its bytes do, only the first can begin a word. A token without
            characters, as special ones are, begins a word.

    Returns:
        One truth value per token.
    """
    ends = list(accumulate(map(len, segmenter.words(sentence)), initial=0))
    assert ends[-1] == len(sentence), "a segmenter keeps every character"
    begins = np.zeros(len(sentence) + 1, dtype=np.bool_)
    begins[ends] = True
    positions = np.array(offsets, dtype=np.int64).reshape(-1, 2)
    starts = begins[positions[:, 0]]
    written = np.flatnonzero(positions[:, 0] < positions[:, 1])
    again = np.diff(positions[written, 0]) == 0
    starts[written[1:][again]] = False
    starts[positions[:, 0] == positions[:, 1]] = True
    return starts


class _Jieba:
    """Chinese words from a dictionary, and from a hidden Markov model for what is not in it."""

    def __init__(self) -> None:
        _jieba()

    def words(self, sentence: str) -> Sequence[str]:
        words: list[str] = _dictionary().lcut(sentence)
        return words


def _jieba() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it was written for older Pythons
            import jieba
    except ImportError as error:
        raise MissingExtra("Segmenting Chinese", "jieba", "chinese") from error
    return jieba


@cache
def _dictionary() -> Any:
    dictionary = _jieba().Tokenizer()
    # Trap: left to itself it prints to standard error, and reads a file of a fixed name in the
    # folder for temporary files, which may be another version's or another user's.
    dictionary.FREQ, dictionary.total = dictionary.gen_pfdict(dictionary.get_dict_file())
    dictionary.initialized = True
    return dictionary


_SEGMENTERS = {"jieba": _Jieba}
