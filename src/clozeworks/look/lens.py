"""The logit lens: which words the vocabulary head would say at each layer.

Paper: nostalgebraist 2020 (logit lens); Belrose et al. 2023 (tuned lens, in tuned_lens.py).
The idea: the last norm, if the family has one, and the vocabulary head are applied to the hidden
state of every layer. After the last layer they are the model's own scores, to the last bit.
Where it differs between families: where norms stand after the sum (BERT), there is no last norm.
Trap: the head was never trained on early layers. What it says there may be nonsense although the
layer knows better, which is why there is a tuned lens.

Shapes: n places, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from clozeworks.core.model import Model
from clozeworks.inference.loop import BatchOptions, Computation, compute_in_order, device_of
from clozeworks.inference.packing import check_finite
from clozeworks.look.layers import AskedText, ask_text, asked_states
from clozeworks.look.pieces import ShownPiece, rounded
from clozeworks.spec import PositiveInt, check
from clozeworks.text.tokenizer.tokenizer import Tokenizer

# Logits that exist at once.
_LOGITS = 1 << 25
CAUTION = (
    "The head was trained on the last layer alone: an early layer that names nonsense may know the "
    "word and write it in another way."
)
TUNED = (
    "A tuned lens was trained to say early what the last layer says; what it finds need not be "
    "what the model uses."
)


class Translator(Protocol):
    """Makes of a layer's hidden states what the head would read after the last layer."""

    def translate(self, layer: int, states: Tensor) -> Tensor:
        """Hidden states of a layer, 0 for the embeddings, to those the head reads, (n, W)."""


@dataclass(frozen=True, slots=True)
class LayerReading:
    """What the head says about one place after one layer."""

    layer: int
    """0 for the embeddings."""
    words: tuple[tuple[str, float], ...]
    """The likeliest tokens with their probabilities."""
    rank: int | None
    """The rank of the right token, from 1; None if no token is known to be right."""
    probability: float | None
    """Its probability."""
    divergence: float
    """KL divergence of the last layer's distribution from this one, in nats; 0 in the last."""
    entropy: float
    """Of the distribution, in nats."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "layer": self.layer,
            "words": [[word, rounded(p)] for word, p in self.words],
            "rank": self.rank,
            "probability": rounded(self.probability),
            "divergence": rounded(self.divergence),
            "entropy": rounded(self.entropy),
        }


@dataclass(frozen=True)
class LensPlace:
    """A place in a text, and what each layer says about it."""

    position: int
    piece: ShownPiece
    right: str | None
    """The right token as text; None if it is not known."""
    readings: tuple[LayerReading, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "position": self.position,
            "piece": self.piece.to_dict(),
            "right": self.right,
            "readings": [each.to_dict() for each in self.readings],
        }


@dataclass(frozen=True)
class LensView:
    """What the vocabulary head says at each layer of a model."""

    pieces: tuple[ShownPiece, ...]
    """The tokens of the text that is asked about."""
    places: tuple[LensPlace, ...]
    follows: bool
    """Whether a place says what follows it, or what stands there."""
    tuned: bool
    """Whether a trained translation stands before the head."""
    last_differs: bool
    """Whether the last row was computed by more than the last layer (DeBERTa's mask decoder)."""

    def divergences(self) -> list[float]:
        """The KL divergence of the last layer from each layer, the mean over all places."""
        each = [[reading.divergence for reading in place.readings] for place in self.places]
        return [float(value) for value in np.array(each).mean(axis=0)]

    def notes(self) -> list[str]:
        """What this view does not show, in sentences."""
        found = [TUNED if self.tuned else CAUTION]
        if not self.follows and not any(place.right is None for place in self.places):
            found.append("The model sees the words it is asked about, unless they are gaps.")
        if self.last_differs:
            found.append("The last row is the mask decoder's, which also knows absolute positions.")
        return found

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "view": "lens",
            "pieces": [each.to_dict() for each in self.pieces],
            "places": [each.to_dict() for each in self.places],
            "follows": self.follows,
            "tuned": self.tuned,
            "notes": self.notes(),
        }


def look_through_lens(
    model: Model,
    tokenizer: Tokenizer,
    text: str,
    *,
    target: str | None = None,
    start: int | None = None,
    places: Sequence[int] | None = None,
    right: Sequence[str] | None = None,
    top: int = 5,
    tuned: Translator | None = None,
    max_length: int | None = None,
    options: BatchOptions | None = None,
) -> LensView:
    """Applies the vocabulary head to the hidden states of every layer.

    Args:
        model: A model with a vocabulary head.
        tokenizer: Its tokenizer.
        text: The text; of a masked model with gaps, or its tokens name themselves.
        target: What an encoder-decoder writes for the text.
        start: The decoder start token.
        places: Numbers of the tokens to ask at; gaps, or all tokens, if not given.
        right: The right words for the gaps.
        top: How many words each layer names.
        tuned: Translates layers before the head reads them.
        max_length: The most tokens of a text.
        options: Progress and cancellation.

    Raises:
        UnsupportedError: If the model has no vocabulary head.
        InputError: If the text is too long, or an argument does not fit it.
    """
    check("top", top, PositiveInt)
    asked = ask_text(
        model,
        tokenizer,
        text,
        target=target,
        start=start,
        places=places,
        right=right,
        max_length=max_length,
    )
    device = device_of(model)

    def forward(batch: list[int]) -> list[tuple[list[_Readings], bool]]:
        states, differs = asked_states(model, asked, device)
        last = len(states) - 1
        # A mask decoder's result stands beside the last layer's place, not after it.
        readings, own = [], lens_logits(model, states[last]).float()
        check_finite(model, own, [0] * len(own), "a logit")
        for layer, each in enumerate(states):
            said = own
            if layer < last:
                translated = each if tuned is None else tuned.translate(layer, each)
                said = lens_logits(model, translated).float()
            readings.append(_read(said, own, asked, top))
        return [(readings, differs)]

    computation = Computation(("lens", object()), forward)
    readings, differs = compute_in_order(model, [0], [asked.cost], computation, options)[0]

    def word(token: int) -> str:
        return tokenizer.decode([token], skip_special=False).strip() or tokenizer.token_of(token)

    known = set(tokenizer.vocabulary().values())
    found = []
    for number, (place, right_id) in enumerate(zip(asked.places, asked.right, strict=True)):
        layers = tuple(
            each.at(number, layer, lambda token: word(token) if token in known else "")
            for layer, each in enumerate(readings)
        )
        shown = None if right_id is None else word(right_id)
        found.append(LensPlace(place, asked.pieces[place], shown, layers))
    return LensView(
        pieces=asked.pieces,
        places=tuple(found),
        follows=model.blueprint.can_generate,
        tuned=tuned is not None,
        last_differs=differs,
    )


def lens_logits(model: Model, states: Tensor) -> Tensor:
    """What the vocabulary head says of hidden states (n, W), within bounds of memory, (n, V)."""
    if len(states) * model.vocabulary.decoder.out_features <= _LOGITS:
        logits: Tensor = model.vocabulary(states)  # in one call, as the model itself computes them
        return logits
    return torch.cat([*model.vocabulary.chunks(states)])


@dataclass(frozen=True)
class _Readings:
    """What the head says after one layer, of all places."""

    top_ids: list[list[int]]
    top_values: list[list[float]]
    ranks: list[int]
    probabilities: list[float]
    divergences: list[float]
    entropies: list[float]
    is_known: list[bool]

    def at(self, number: int, layer: int, word: Any) -> LayerReading:
        """Those of one place."""
        pairs = zip(self.top_ids[number], self.top_values[number], strict=True)
        known = self.is_known[number]
        return LayerReading(
            layer,
            tuple((word(token), value) for token, value in pairs),
            self.ranks[number] if known else None,
            self.probabilities[number] if known else None,
            self.divergences[number],
            self.entropies[number],
        )


def _read(logits: Tensor, last: Tensor, asked: AskedText, top: int) -> _Readings:
    """Reads the logits of a layer (n, V) beside those of the last layer."""
    probabilities, exact = logits.softmax(dim=-1), logits.log_softmax(dim=-1)
    values, ids = probabilities.topk(min(top, logits.shape[1]), dim=-1)
    right = torch.tensor([0 if each is None else each for each in asked.right]).to(logits.device)
    own = logits.gather(1, right[:, None])
    # Clamped: rounding makes the divergence of two distributions that are nearly equal negative.
    divergence = (last.softmax(dim=-1) * (last.log_softmax(dim=-1) - exact)).sum(dim=-1)
    return _Readings(
        ids.tolist(),
        values.tolist(),
        ((logits > own).sum(dim=1) + 1).tolist(),
        probabilities.gather(1, right[:, None])[:, 0].tolist(),
        divergence.clamp(min=0).tolist(),
        (-torch.special.xlogy(probabilities, probabilities).sum(dim=-1)).tolist(),
        [each is not None for each in asked.right],
    )
