"""Reads SentencePiece models of T5 and mT5 (`spiece.model`) without SentencePiece's library.

Paper: Kudo & Richardson 2018.
The idea: the file is a protocol buffer, that is, fields of a number, a kind and a value, one after
the other. Few are needed: the pieces with scores and kinds, the kind of the model, whether bytes
stand for what pieces cannot write, and the table that normalises characters. Nothing in it is ever
run.
Compat: texts are cut and normalised as the published `tokenizer.json` of T5 does. Where the model
says so, characters that no piece can write become bytes (`<0xE5>`), as SentencePiece does;
converted by transformers they would be unknown.
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from clozeworks.errors import TokenizerError
from clozeworks.text.tokenizer.special import check_sentinels, sentinel_name

PUBLISHED_CLASSES = ("T5Tokenizer", "MT5Tokenizer")
FILE = "spiece.model"
SENTINELS = 100
# Numbers of fields in the file, of the kinds of pieces, and of the one kind of model that is read.
_PIECES, _TRAINING, _NORMALIZING = 1, 2, 3
_PIECE, _SCORE, _KIND = 1, 2, 3
_MODEL_KIND, _BYTES, _TABLE = 3, 35, 2
_UNKNOWN, _CONTROL, _USER = 2, 3, 4
_UNIGRAM = 1
# How values are written: a number, eight bytes, a length and its bytes, four bytes.
_NUMBER, _EIGHT, _LONG, _FOUR = 0, 1, 2, 5


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


def t5_tokens(path: Path, config: Mapping[str, Any]) -> Backend:
    """Makes T5's tokenizer of a model file; the config may count the sentinels, else 100.

    Raises:
        TokenizerError: If the file cannot be used.
    """
    model = read_pieces(path)
    if not model.is_unigram:
        raise TokenizerError(
            f"{path} holds pairs of pieces; T5's is a Unigram model; have transformers write "
            "tokenizer.json: AutoTokenizer.from_pretrained(folder).save_pretrained(folder)."
        )
    count = config.get("extra_ids", SENTINELS)
    count = count if type(count) is int and count > 0 else 0
    check_sentinels(count, path.with_name("tokenizer_config.json"))
    sentinels = [*map(sentinel_name, reversed(range(count)))]
    known = {piece for piece, _ in model.pieces}
    pieces = model.pieces + [(name, 0.0) for name in sentinels if name not in known]
    numbers = {piece: number for number, (piece, _) in enumerate(pieces)}
    unknown = model.kinds.index(_UNKNOWN)
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
    if "</s>" in numbers:
        backend.post_processor = processors.TemplateProcessing(
            single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", numbers["</s>"])]
        )
    for (piece, _), kind in zip(model.pieces, model.kinds, strict=True):
        if kind in (_UNKNOWN, _CONTROL):
            backend.add_special_tokens([AddedToken(piece, normalized=False, special=True)])
        elif kind == _USER:
            backend.add_tokens([AddedToken(piece, normalized=False)])
    backend.add_special_tokens(
        [AddedToken(name, normalized=False, special=True) for name in sentinels]
    )
    return backend


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
