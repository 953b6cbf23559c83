"""Reads SentencePiece models of T5, mT5, XLM-RoBERTa and CamemBERT without SentencePiece's library.

Paper: Kudo & Richardson 2018.
The idea: the file is a protocol buffer, that is, fields of a number, a kind and a value, one after
the other. Few are needed: the pieces with scores and kinds, the kind of the model, whether bytes
stand for what pieces cannot write, and the table that normalises characters. Nothing in it is ever
run.
Compat: texts are cut and normalised as the published `tokenizer.json` of each does. fairseq, which
trained XLM-RoBERTa and CamemBERT, numbers its own special tokens before the pieces of the file, so
their ids are shifted. Where the model
says so, characters that no piece can write become bytes (`<0xE5>`), as SentencePiece does;
converted by transformers they would be unknown.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from clozeworks.errors import TokenizerError
from clozeworks.text.tokenizer.special import check_sentinels, sentinel_name

SENTINELS = 100
# Numbers of fields in the file, of the kinds of pieces, and of the one kind of model that is read.
_PIECES, _TRAINING, _NORMALIZING = 1, 2, 3
_PIECE, _SCORE, _KIND = 1, 2, 3
_MODEL_KIND, _BYTES, _TABLE = 3, 35, 2
_UNKNOWN, _CONTROL, _USER = 2, 3, 4
_UNIGRAM = 1
# How values are written: a number, eight bytes, a length and its bytes, four bytes.
_NUMBER, _EIGHT, _LONG, _FOUR = 0, 1, 2, 5


@dataclass(frozen=True, kw_only=True)
class PieceNumbering:
    """How a family numbers the pieces of a model file, and frames a text."""

    name: str
    file: str
    classes: tuple[str, ...]
    """The tokenizer classes of transformers that number so."""
    leading: tuple[tuple[str, float], ...] = ()
    """Pieces, with scores, that come before those of the file."""
    dropped: tuple[str, ...] = ()
    """The first pieces of the file, which are among those or not used."""
    trailing: tuple[str, ...] = ()
    """Pieces that come after those of the file."""
    frame: tuple[str, str]
    """How a text is written, and a pair."""


T5_PIECES = PieceNumbering(
    name="T5",
    file="spiece.model",
    classes=("T5Tokenizer", "MT5Tokenizer"),
    frame=("$A </s>", "$A </s> $B </s>"),
)
_ROBERTA_FRAME = ("<s> $A </s>", "<s> $A </s> </s> $B </s>")
XLM_ROBERTA_PIECES = PieceNumbering(
    name="XLM-RoBERTa",
    file="sentencepiece.bpe.model",
    classes=("XLMRobertaTokenizer",),
    leading=(("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)),
    dropped=("<unk>", "<s>", "</s>"),
    trailing=("<mask>",),
    frame=_ROBERTA_FRAME,
)
CAMEMBERT_PIECES = PieceNumbering(
    name="CamemBERT",
    file="sentencepiece.bpe.model",
    classes=("CamembertTokenizer",),
    leading=(
        ("<s>NOTUSED", 0.0),
        ("<pad>", 0.0),
        ("</s>NOTUSED", 0.0),
        ("<unk>", 0.0),
        ("<unk>NOTUSED", -100.0),
    ),
    dropped=("<unk>",),
    trailing=("<mask>",),
    frame=_ROBERTA_FRAME,
)
NUMBERINGS = (T5_PIECES, XLM_ROBERTA_PIECES, CAMEMBERT_PIECES)


@dataclass
class SentencePieces:
    """What a model file holds."""

    pieces: list[tuple[str, float]] = field(default_factory=list)
    """Each piece with its score; the position in the list is its id."""
    kinds: list[int] = field(default_factory=list)
    """The kind of each."""
    is_unigram: bool = True
    """Whether it is a Unigram model, as T5's; others are pairs."""
    writes_bytes: bool = False
    """Whether bytes stand for what pieces cannot write."""
    table: bytes = b""
    """The table that normalises characters."""


def read_pieces(path: Path) -> SentencePieces:
    """Reads a model file.

    Raises:
        TokenizerError: If the file is damaged, or is not a SentencePiece model.
    """
    model = SentencePieces()
    seen: set[int] = set()
    try:
        for number, value in _fields(path.read_bytes()):
            seen.add(number)
            if number not in (_PIECES, _TRAINING, _NORMALIZING):
                continue
            inner = dict(_fields(_as_bytes(value)))
            if number == _PIECES:
                score = struct.unpack("<f", _as_bytes(inner.get(_SCORE, bytes(4))))[0]
                model.pieces.append((_as_bytes(inner[_PIECE]).decode("utf-8"), score))
                model.kinds.append(int(inner.get(_KIND, 1)))
            elif number == _TRAINING:
                model.is_unigram = inner.get(_MODEL_KIND, _UNIGRAM) == _UNIGRAM
                model.writes_bytes = bool(inner.get(_BYTES, 0))
            else:
                model.table = _as_bytes(inner.get(_TABLE, b""))
    except (ValueError, KeyError, struct.error, OSError) as error:
        raise TokenizerError(
            f"{path} is not a SentencePiece model, or damaged ({error}); fetch it again."
        ) from None
    if not {_TRAINING, _NORMALIZING} <= seen:
        raise TokenizerError(
            f"{path} ends before its settings, which every model has after its pieces; it was cut "
            "off; fetch it again."
        )
    if _UNKNOWN not in model.kinds:
        raise TokenizerError(f"{path} has no unknown piece; every model has one; fetch it again.")
    return model


def piece_tokens(folder: Path, numbering: PieceNumbering, config: Mapping[str, Any]) -> Backend:
    """Makes the tokenizer of a folder with a model file.

    Args:
        folder: The folder.
        numbering: How the family numbers the pieces.
        config: What `tokenizer_config.json` says; it may count T5's sentinels, else there are 100.

    Raises:
        TokenizerError: If the file cannot be used.
    """
    path = folder / numbering.file
    model = read_pieces(path)
    if not model.is_unigram:
        raise TokenizerError(
            f"{path} holds pairs of pieces; {numbering.name}'s is a Unigram model; have "
            "transformers write tokenizer.json: "
            "AutoTokenizer.from_pretrained(folder).save_pretrained(folder)."
        )
    first = tuple(piece for piece, _ in model.pieces[: len(numbering.dropped)])
    if first != numbering.dropped:
        raise TokenizerError(
            f"{path} begins with {', '.join(first)}; a model of {numbering.name} begins with "
            f"{', '.join(numbering.dropped)}; check that the file belongs to this folder."
        )
    trailing = numbering.trailing
    if numbering is T5_PIECES:
        trailing = _sentinels(path, config)
    own = [*numbering.leading, *model.pieces[len(first) :]]
    known = {piece for piece, _ in own}
    pieces = own + [(name, 0.0) for name in trailing if name not in known]
    numbers = {piece: number for number, (piece, _) in enumerate(pieces)}
    unknown = numbers[model.pieces[model.kinds.index(_UNKNOWN)][0]]
    try:
        backend = Backend(models.Unigram(pieces, unk_id=unknown, byte_fallback=model.writes_bytes))
        if model.table:
            backend.normalizer = normalizers.Precompiled(model.table)
    except Exception as error:  # The library raises bare Exception.
        raise TokenizerError(f"{path} is damaged ({error}); fetch it again.") from None
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    )
    backend.decoder = (
        decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
        if model.writes_bytes
        else decoders.Metaspace()
    )
    single, pair = numbering.frame
    around = [name for name in ("<s>", "</s>") if name in pair]
    if all(name in numbers for name in around):
        backend.post_processor = processors.TemplateProcessing(
            single=single, pair=pair, special_tokens=[(name, numbers[name]) for name in around]
        )
    _add_special(backend, [name for name, _ in numbering.leading])
    for (piece, _), kind in zip(model.pieces, model.kinds, strict=True):
        if kind in (_UNKNOWN, _CONTROL):
            _add_special(backend, [piece])
        elif kind == _USER:
            backend.add_tokens([AddedToken(piece, normalized=False)])
    _add_special(backend, trailing)
    return backend


def _sentinels(path: Path, config: Mapping[str, Any]) -> tuple[str, ...]:
    """T5's, of which the first has the very last id."""
    count = config.get("extra_ids", SENTINELS)
    count = count if type(count) is int and count > 0 else 0
    check_sentinels(count, path.with_name("tokenizer_config.json"))
    return tuple(map(sentinel_name, reversed(range(count))))


def _add_special(backend: Backend, names: Sequence[str]) -> None:
    # Compat: RoBERTa's mask swallows the space before it, as a word's piece would.
    backend.add_special_tokens(
        [
            AddedToken(name, lstrip=name == "<mask>", normalized=False, special=True)
            for name in names
        ]
    )


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message: number and value."""
    position = 0
    while position < len(data):
        key, position = _number(data, position)
        kind = key & 7
        if kind == _NUMBER:
            value, position = _number(data, position)
            yield key >> 3, value
            continue
        if kind == _LONG:
            size, position = _number(data, position)
        elif kind in (_EIGHT, _FOUR):
            size = 8 if kind == _EIGHT else 4
        else:
            raise ValueError(f"byte {position:,} begins no field")
        if position + size > len(data):
            raise ValueError(f"a field ends {position + size - len(data):,} bytes after the end")
        yield key >> 3, data[position : position + size]
        position += size


def _number(data: bytes, position: int) -> tuple[int, int]:
    """A number of seven bits a byte, lowest first, and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            raise ValueError("it ends within a number")
        value |= (data[position] & 0x7F) << shift
        position += 1
        if data[position - 1] < 0x80:
            return value, position
    raise ValueError(f"byte {position:,} goes on with a number that is too long")


def _as_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a number stands where a text is expected")
    return value
