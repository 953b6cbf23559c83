"""The tuned lens: a small translation per layer, trained to say what the last layer will say.

Paper: Belrose et al. 2023.
The idea: h + W_l h + b_l stands before the head. W and b are zero at first, which is the logit
lens; they are trained to bring the head's distribution near that of the last layer (KL), on text
alone.
Where paper and code differ: the paper trains with SGD and momentum on the residual stream before
the last norm; here Adam trains on what the head reads, after that norm, which is the same place
where norms stand after the sum.

Shapes: L layers (without the last), W width, n places.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from clozeworks.core.model import Model
from clozeworks.errors import CheckpointError, InputError
from clozeworks.inference.loop import BatchOptions, Cancelled, device_of, evaluating
from clozeworks.look.layers import AskedText, ask_text, asked_states
from clozeworks.look.lens import lens_logits
from clozeworks.rng import RandomStream
from clozeworks.spec import PositiveInt, check
from clozeworks.storage.atomic import atomic_file
from clozeworks.text.tokenizer.tokenizer import Tokenizer

_KIND = "clozeworks tuned lens"
# The fraction of a text's tokens that are hidden from a masked model, and places of a text at most.
_HIDDEN, _MOST_PLACES = 0.15, 64


@dataclass(frozen=True)
class TunedLens:
    """A translation for each layer but the last."""

    weight: Tensor
    """(L, W, W)."""
    bias: Tensor
    """(L, W)."""

    @classmethod
    def untrained(cls, model: Model) -> "TunedLens":
        """All zero: the logit lens."""
        tower = model.encoder if model.decoder is None else model.decoder
        depth, width = len(tower.order), model.blueprint.width
        return cls(torch.zeros(depth, width, width), torch.zeros(depth, width))

    def translate(self, layer: int, states: Tensor) -> Tensor:
        """Hidden states of a layer, 0 for the embeddings, to those the head reads, (n, W)."""
        weight, bias = self.weight[layer].to(states), self.bias[layer].to(states)
        return states + states @ weight.T + bias

    def save(self, path: Path | str) -> Path:
        """Writes a safetensors file."""
        tensors = {"weight": self.weight.contiguous(), "bias": self.bias.contiguous()}
        with atomic_file(Path(path)) as file:
            file.write(save(tensors, {"kind": _KIND}))
        return Path(path)

    @classmethod
    def load(cls, path: Path | str, model: Model) -> "TunedLens":
        """Reads a file that `save` wrote, for the model it was trained for.

        Raises:
            CheckpointError: If it is something else, damaged, or of another shape.
        """
        try:
            with safe_open(str(path), framework="pt") as file:
                kind = (file.metadata() or {}).get("kind")
                weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError) as error:
            raise CheckpointError(
                f"{path} cannot be read as a tuned lens ({error}); train one, or name its file."
            ) from error
        plain = cls.untrained(model)
        shapes = {"weight": plain.weight.shape, "bias": plain.bias.shape}
        if kind != _KIND or {name: each.shape for name, each in weights.items()} != shapes:
            raise CheckpointError(
                f"{path} is not a tuned lens of this model ({len(plain.bias)} layers of width "
                f"{plain.bias.shape[1]:,}); train one for it."
            )
        if not all(bool(each.isfinite().all()) for each in weights.values()):
            raise CheckpointError(f"{path} holds NaN or infinity; train the lens again.")
        return cls(weights["weight"].float(), weights["bias"].float())


def train_lens(
    model: Model,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    targets: Sequence[str] | None = None,
    start: int | None = None,
    steps: int = 200,
    learning_rate: float = 1e-3,
    texts_per_step: int = 8,
    seed: int = 0,
    max_length: int | None = None,
    options: BatchOptions | None = None,
) -> TunedLens:
    """Trains a lens on texts; the model stays as it is.

    Of the tokens of a masked model's texts 15 % are hidden, others in each step.

    Args:
        model: A model with a vocabulary head.
        tokenizer: Its tokenizer.
        texts: The texts, such as those the model was trained on.
        targets: What an encoder-decoder writes for each.
        start: The decoder start token.
        steps: How many steps of Adam.
        learning_rate: Its learning rate, which falls to 0.
        texts_per_step: How many texts of a step.
        seed: Decides the order of texts and what is hidden.
        max_length: Longer texts are cut to so many tokens.
        options: Progress (in steps) and cancellation.

    Raises:
        InputError: If there is nothing to train on.
    """
    check("steps", steps, PositiveInt)
    if not texts:
        raise InputError("there are no texts; give some that the lens is trained on.")
    stream, options = RandomStream(seed, "tuned lens"), options or BatchOptions()
    zero = TunedLens.untrained(model)
    device = device_of(model)
    weight = zero.weight.to(device).requires_grad_()
    bias = zero.bias.to(device).requires_grad_()
    optimizer = torch.optim.Adam([weight, bias], lr=learning_rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    lens = TunedLens(weight, bias)
    with evaluating(model):
        for step in range(steps):
            if options.cancelled is not None and options.cancelled():
                raise Cancelled("the work was cancelled before it was done; start it again.")
            chosen = stream.stream("order").permutation(step, len(texts))[:texts_per_step]
            optimizer.zero_grad()
            total = torch.zeros((), device=device)
            for number in map(int, chosen):
                asked = _asked(
                    model, tokenizer, texts[number], targets[number] if targets else None,
                    start, stream, step, number, max_length,
                )  # fmt: skip
                if asked is not None:
                    total = total + lens_loss(model, lens, asked) / len(chosen)
            if total.requires_grad:
                total.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            schedule.step()
            if options.progress is not None:
                options.progress(step + 1, steps)
    return TunedLens(weight.detach().cpu(), bias.detach().cpu())


def lens_loss(model: Model, lens: TunedLens, asked: AskedText) -> Tensor:
    """KL of the last layer's distribution from what the lens says, the mean over places and layers.

    Gradients reach the lens alone.
    """
    with torch.no_grad():
        states, _ = asked_states(model, asked, device_of(model))
        last = lens_logits(model, states[-1]).float().log_softmax(dim=-1)
    losses = []
    for layer, each in enumerate(states[:-1]):
        said = model.vocabulary(lens.translate(layer, each)).float().log_softmax(dim=-1)
        losses.append((last.exp() * (last - said)).sum(dim=-1).mean())
    return torch.stack(losses).mean()


def _asked(
    model: Model,
    tokenizer: Tokenizer,
    text: str,
    target: str | None,
    start: int | None,
    stream: RandomStream,
    step: int,
    number: int,
    max_length: int | None,
) -> AskedText | None:
    """A text with some places of it, hidden if the model fills gaps; None if it has no token."""
    if model.decoder is None and max_length is not None:
        encoded = tokenizer.encode([text], max_length=max_length, truncate=True, offsets=True)[0]
        assert encoded.offsets is not None
        text = text[: max((end for _, end in encoded.offsets), default=0)]
    if not text.strip():
        return None
    asked = ask_text(
        model, tokenizer, text, target=target, start=start, max_length=None, places=None
    ) if model.blueprint.can_generate else _hidden(tokenizer, text)  # fmt: skip
    count = len(asked.places)
    kept = max(1, round(count * _HIDDEN)) if not model.blueprint.can_generate else count
    drawn = np.sort(stream.permutation(step * 1_000_003 + number, count)[: min(kept, _MOST_PLACES)])
    places = tuple(asked.places[each] for each in drawn)
    ids = list(asked.encoded.ids)
    if not model.blueprint.can_generate:
        assert tokenizer.mask_id is not None
        for place in places:
            ids[place] = tokenizer.mask_id
    encoded = type(asked.encoded)(ids, asked.encoded.types, asked.encoded.special)
    return AskedText(encoded, asked.pieces, asked.written, places, (None,) * len(places))


def _hidden(tokenizer: Tokenizer, text: str) -> AskedText:
    """All tokens of a text that stand for text."""
    encoded = tokenizer.encode([text])[0]
    places = tuple(n for n, special in enumerate(encoded.special) if not special)
    return AskedText(encoded, (), (), places or (0,), (None,) * max(1, len(places)))
