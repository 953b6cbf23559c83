"""The hidden states of every layer at the places where a model's vocabulary head answers.

The idea: a lens reads the stream that answers. Of an encoder that is the encoder, of an
encoder-decoder the decoder, of XLNet the query stream. DeBERTa's mask decoder runs the last layer
in its own way; its result stands last.

Shapes: n places, L layers, W width, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clozeworks.core.context import AttentionSource, Trace
from clozeworks.core.heads.mask_decoder import NAME as DECODER
from clozeworks.core.heads.query_start import NAME as START
from clozeworks.core.heads.vocabulary import NAME as VOCABULARY
from clozeworks.core.layers.two_stream import unseen
from clozeworks.core.layout import Layout
from clozeworks.core.model import Model, hidden_states_at
from clozeworks.errors import InputError, UnsupportedError
from clozeworks.inference.packing import Packed, pack
from clozeworks.look.pieces import ShownPiece, encode_pieces, written_pieces
from clozeworks.text.tokenizer.encoding import Encoded
from clozeworks.text.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True)
class AskedText:
    """A text, the places at which the vocabulary head is asked, and what is right there."""

    encoded: Encoded
    pieces: tuple[ShownPiece, ...]
    """Of the text that is asked about: of an encoder-decoder what it wrote so far."""
    written: tuple[int, ...]
    """What an encoder-decoder's decoder reads; empty of others."""
    places: tuple[int, ...]
    """Positions among the pieces, in ascending order."""
    right: tuple[int | None, ...]
    """The token that is right at each place; None if that is not known."""

    @property
    def cost(self) -> int:
        """Its tokens."""
        return len(self.encoded) + len(self.written)


def ask_text(
    model: Model,
    tokenizer: Tokenizer,
    text: str,
    *,
    target: str | None = None,
    start: int | None = None,
    places: Sequence[int] | None = None,
    right: Sequence[str] | None = None,
    max_length: int | None = None,
) -> AskedText:
    """A text with the places where its model says what should stand there.

    Of a masked model these are its gaps; without gaps all tokens, each of which then sees itself.
    Of a decoder every token, which says what follows; of an encoder-decoder every token it writes.

    Args:
        model: A model with a vocabulary head.
        tokenizer: Its tokenizer.
        text: The text.
        target: What an encoder-decoder writes for it.
        start: The decoder start token.
        places: Numbers of tokens, if not all of these.
        right: The right words for gaps.
        max_length: The most tokens of a text.

    Raises:
        UnsupportedError: If there is no vocabulary head.
        InputError: If the text is too long, if a target is missing, or if places or words do not
            fit.
    """
    if VOCABULARY not in model.heads:
        raise UnsupportedError(
            "the model has no vocabulary head, so no layer can say a word; use a checkpoint saved "
            "with its language-model head."
        )
    if model.decoder is None and target is not None:
        raise InputError("the model reads a text and writes none for it; leave out target.")
    if model.decoder is not None:
        return _of_decoder(tokenizer, text, target, start, places, right, max_length)
    if not model.blueprint.can_generate and tokenizer.mask_id is not None:
        text = tokenizer.mark_gaps(text)
    encoded, pieces = encode_pieces(tokenizer, text, max_length=max_length)
    ids = encoded.ids
    if model.blueprint.can_generate:
        asked = [*range(len(ids))] if places is None else _checked(places, len(ids))
        following = [ids[n + 1] if n + 1 < len(ids) else None for n in asked]
        _refuse_words(right)
        return AskedText(encoded, pieces, (), tuple(asked), tuple(following))
    gaps = [n for n, each in enumerate(ids) if each == tokenizer.mask_id]
    if not gaps and START in model.heads:
        raise InputError(
            "the text has no gap, and the stream that answers sees no word it is asked about; "
            "write [MASK] where a word is missing."
        )
    asked = (gaps or [*range(len(ids))]) if places is None else _checked(places, len(ids))
    known: list[int | None] = [None if each in gaps else ids[each] for each in asked]
    if right is not None:
        known = _words(tokenizer, right, [each for each in asked if each in gaps], asked, known)
    return AskedText(encoded, pieces, (), tuple(asked), tuple(known))


def _of_decoder(
    tokenizer: Tokenizer,
    text: str,
    target: str | None,
    start: int | None,
    places: Sequence[int] | None,
    right: Sequence[str] | None,
    max_length: int | None,
) -> AskedText:
    _refuse_words(right)
    if target is None:
        raise InputError(
            "the model writes a text for the one it reads; give what it writes as target."
        )
    assert start is not None, "a decoder has a token it starts from"
    encoded, _ = encode_pieces(tokenizer, text, max_length=max_length)
    answer = tokenizer.encode([target], max_length=max_length)[0].ids
    written = [start, *answer[:-1]]
    pieces = written_pieces(tokenizer, written, target)
    asked = [*range(len(written))] if places is None else _checked(places, len(written))
    return AskedText(
        encoded, pieces, tuple(written), tuple(asked), tuple(answer[each] for each in asked)
    )


def _checked(places: Sequence[int], count: int) -> list[int]:
    """Numbers of tokens in ascending order; negative ones count from the last."""
    found = sorted({each + count if each < 0 else each for each in places})
    if not found or not 0 <= found[0] <= found[-1] < count:
        raise InputError(
            f"places are {', '.join(map(str, places)) or 'missing'}; the text has {count:,} tokens;"
            f" name some from 0 to {count - 1:,}."
        )
    return found


def _refuse_words(right: Sequence[str] | None) -> None:
    if right is not None:
        raise InputError("the right words are those of the text itself; leave out right.")


def _words(
    tokenizer: Tokenizer,
    right: Sequence[str],
    gaps: Sequence[int],
    asked: Sequence[int],
    known: Sequence[int | None],
) -> list[int | None]:
    if isinstance(right, str) or len(right) != len(gaps):
        raise InputError(
            f"the text has {len(gaps):,} gaps that are asked about; give a list of as many words."
        )
    ids = dict(zip(gaps, (_single(tokenizer, word) for word in right), strict=True))
    return [ids.get(place, other) for place, other in zip(asked, known, strict=True)]


def _single(tokenizer: Tokenizer, word: str) -> int:
    found = tokenizer.single_id(word)
    if found is None:
        raise InputError(
            f"the word {word!r} is not one token of this model; a gap takes one token; choose a "
            "word from the vocabulary."
        )
    return found


def asked_states(model: Model, asked: AskedText, device: torch.device) -> tuple[list[Tensor], bool]:
    """What the head reads at the places, of the embeddings and of every layer, (n, W) each.

    The last is what the model itself reads, after the last norm; those before it are normalised
    alike.

    Returns:
        The states, and whether the last was made in another way than by the last layer.
    """
    packed = pack([asked.encoded], device)
    positions = torch.from_numpy(np.array(asked.places, dtype=np.int64)).to(device)
    if asked.written:
        return _decoded(model, asked, packed, positions), False
    trace = Trace(attention=None)
    if START in model.heads:
        last = unseen(model, packed.ids, packed.layout, packed.types, positions, trace)
        norm = model.encoder.norm
        return [*(norm(each) for each in trace.hidden_states[:-1]), last], False
    every = packed.encoded(model, trace)
    below = [model.encoder.norm(each[positions]) for each in trace.hidden_states[:-1]]
    if DECODER in model.heads:
        last = hidden_states_at(model, packed.ids, packed.layout, packed.types, positions)
        return [*below, last], True
    return [*below, model.for_heads(every, packed.ids, packed.layout)[positions]], False


def _decoded(model: Model, asked: AskedText, packed: Packed, positions: Tensor) -> list[Tensor]:
    assert model.decoder is not None
    source = AttentionSource(packed.hidden_states(model), packed.layout)
    trace = Trace(attention=None)
    ids = torch.tensor(asked.written, device=packed.ids.device)
    last = model.decode(ids, Layout([len(asked.written)]), source, trace)
    below = [model.decoder.norm(each[positions]) for each in trace.hidden_states[:-1]]
    return [*below, last[positions]]
