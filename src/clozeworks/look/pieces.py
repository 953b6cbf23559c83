"""A text as its model sees it: pieces, the characters they came from, the words they spell.

The idea: whatever is measured of a token is shown at the characters it came from. Pieces that split
a character between them (byte-level tokenizers do so) are shown as one; a piece that holds several
words, as in Chinese, makes them one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from clozeworks.inference.logits import TextOrPair
from clozeworks.text.characters import words_of
from clozeworks.text.tokenizer.encoding import Encoded
from clozeworks.text.tokenizer.tokenizer import Tokenizer

DIGITS = 3
_NO_LIMITS = (
    "Pieces show how a text is cut, not what the model makes of them: a word of one piece is not "
    "better known for it."
)


@dataclass(frozen=True, slots=True)
class ShownPiece:
    """A token, and the text it came from."""

    text: str
    """The characters it came from; of a special token its name."""
    token: str
    """Its entry in the vocabulary."""
    id: int
    begin: int
    """Where its characters begin in their text; 0 for special tokens, as is their end."""
    end: int
    special: bool
    """Whether it was added to the text."""
    part: int
    """0 for the first text, 1 for the second of a pair."""
    group: int
    """Pieces with the same number split a character between them."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class WordPieces:
    """A word, and the tokens that spell it; or a special token, which is no word."""

    text: str
    begin: int
    end: int
    part: int
    special: bool
    pieces: tuple[int, ...]
    """The numbers of its tokens."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {**asdict(self), "pieces": list(self.pieces)}


def encode_pieces(
    tokenizer: Tokenizer, text: TextOrPair, *, max_length: int | None = None
) -> tuple[Encoded, tuple[ShownPiece, ...]]:
    """A text, or a pair, as token ids and as pieces.

    Raises:
        InputError: If it is too long.
    """
    texts = (text,) if isinstance(text, str) else text
    pairs = None if len(texts) == 1 else [texts[1]]
    encoded = tokenizer.encode([texts[0]], pairs, max_length=max_length, offsets=True)[0]
    return encoded, pieces_of(tokenizer, encoded, texts)


def pieces_of(
    tokenizer: Tokenizer, encoded: Encoded, texts: Sequence[str]
) -> tuple[ShownPiece, ...]:
    """The pieces of tokens that were encoded with their offsets."""
    assert encoded.offsets is not None
    assert encoded.part is not None
    pieces: list[ShownPiece] = []
    for number, (token_id, special, (begin, end), part) in enumerate(
        zip(encoded.ids, encoded.special, encoded.offsets, encoded.part, strict=True)
    ):
        token = tokenizer.token_of(token_id)
        own = "" if special or part is None else texts[part][begin:end]
        before = pieces[-1] if pieces else None
        shares = (
            before is not None
            and not special
            and not before.special
            and before.part == (part or 0)
            and begin < before.end
        )
        pieces.append(
            ShownPiece(
                text=own or token,
                token=token,
                id=token_id,
                begin=begin if own else 0,
                end=end if own else 0,
                special=special,
                part=part or 0,
                group=pieces[-1].group if shares else number,
            )
        )
    return tuple(pieces)


def written_pieces(tokenizer: Tokenizer, ids: Sequence[int], text: str) -> tuple[ShownPiece, ...]:
    """The pieces of what a decoder reads while it writes a text: its start, then the first ids."""
    encoded = tokenizer.encode([text], offsets=True)[0]
    start = tokenizer.token_of(ids[0])
    first = ShownPiece(start, start, ids[0], 0, 0, special=True, part=0, group=-1)
    return (first, *pieces_of(tokenizer, encoded, (text,))[: len(ids) - 1])


def words_in(pieces: Sequence[ShownPiece], texts: Sequence[str]) -> tuple[WordPieces, ...]:
    """The words of a text and the pieces that spell each; every piece belongs to exactly one.

    Words that share a piece are one. Punctuation and special tokens stand alone.
    """
    spans = [words_of(text) for text in texts]
    groups: list[list[int]] = []
    ends: list[tuple[int, int, int] | None] = []  # part, begin, end of the words of each group
    for number, piece in enumerate(pieces):
        touched = [
            (begin, end)
            for begin, end in (spans[piece.part] if not piece.special else ())
            if begin < piece.end and piece.begin < end
        ]
        if not touched:
            groups.append([number])
            ends.append(None)
            continue
        begin, end = touched[0][0], touched[-1][1]
        last = ends[-1] if ends else None
        if last is not None and last[0] == piece.part and begin < last[2]:
            groups[-1].append(number)
            ends[-1] = (piece.part, last[1], max(last[2], end))
        else:
            groups.append([number])
            ends.append((piece.part, begin, end))
    return tuple(
        _word([pieces[each] for each in group], group, span, texts)
        for group, span in zip(groups, ends, strict=True)
    )


def _word(
    own: Sequence[ShownPiece],
    numbers: Sequence[int],
    span: tuple[int, int, int] | None,
    texts: Sequence[str],
) -> WordPieces:
    first = own[0]
    if span is None:
        return WordPieces(
            first.text, first.begin, first.end, first.part, first.special, tuple(numbers)
        )
    part, begin, end = span
    return WordPieces(texts[part][begin:end], begin, end, part, False, tuple(numbers))


@dataclass(frozen=True)
class TokenizedText:
    """How a tokenizer cuts a text."""

    texts: tuple[str, ...]
    """The text, or the two of a pair."""
    pieces: tuple[ShownPiece, ...]
    words: tuple[WordPieces, ...]
    max_length: int | None
    """The most tokens that the model takes; None without a limit."""

    def notes(self) -> list[str]:
        """What this view does not show, and what is special here, in sentences."""
        found = [_NO_LIMITS]
        if self.max_length is not None and len(self.pieces) > self.max_length:
            found.append(
                f"The text has {len(self.pieces):,} tokens; the model takes {self.max_length:,} "
                "at a time, and reads it through windows, or refuses it."
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it: each piece with its bytes in hexadecimal digits."""
        return {
            "view": "tokens",
            "texts": list(self.texts),
            "pieces": [{**each.to_dict(), "bytes": _bytes(each)} for each in self.pieces],
            "words": [each.to_dict() for each in self.words],
            "max_length": self.max_length,
            "notes": self.notes(),
        }


def _bytes(piece: ShownPiece) -> str:
    return "" if piece.special else piece.text.encode("utf-8", "surrogatepass").hex(" ")


def look_at_tokens(
    tokenizer: Tokenizer, text: TextOrPair, *, max_length: int | None = None
) -> TokenizedText:
    """Cuts a text, or a pair, as a model reads it; one of any length."""
    texts = (text,) if isinstance(text, str) else tuple(text)
    _, pieces = encode_pieces(tokenizer, text)
    return TokenizedText(texts, pieces, words_in(pieces, texts), max_length)


def rounded(value: Any) -> Any:
    """Numbers of plain data with as many digits as a person reads; arrays as lists."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    if hasattr(value, "tolist"):
        return rounded(value.tolist())
    return value
