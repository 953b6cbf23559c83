"""A batch under construction: the clean examples, the ids that get masked, and the targets.

An objective is handed a `BatchBuilder` and a `Vocabularies`, writes into `ids`, and leaves its
targets under its name in `targets`. Their entry `answers` holds the ids or classes to be predicted;
everything else there is the objective's own affair.

Shapes: N tokens, B examples, n targets.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clozeworks.arrays import Int64Array
from clozeworks.core.layout import Layout
from clozeworks.data.examples.example_arrays import ExampleArrays
from clozeworks.errors import TokenizerError, UnsupportedError
from clozeworks.text.tokenizer.special import sentinel_name

if TYPE_CHECKING:
    from clozeworks.data.corpus.corpus import Split
    from clozeworks.text.tokenizer.tokenizer import Tokenizer

TargetArrays = dict[str, NDArray[Any]]
ANSWERS = "answers"


@dataclass(frozen=True)
class Vocabularies:
    """The ids that objectives look up."""

    vocabulary: int
    """The number of token ids."""
    mask_id: int | None = None
    """The mask token; None if the tokenizer has none."""
    special_ids: tuple[int, ...] = ()
    """The ids that are not text."""
    split: "Split | None" = None
    """The corpus that random tokens may be taken from; None if there is none."""
    named: Mapping[str, int] = field(default_factory=dict)
    """The special tokens by name."""
    start_id: int | None = None
    """What a decoder begins with, which is the padding token; None if there is none."""
    end_id: int | None = None
    """What ends a text; None if there is none."""

    @classmethod
    def of(cls, tokenizer: "Tokenizer", split: "Split | None" = None) -> "Vocabularies":
        """What a tokenizer knows, and the tokens of a split."""
        ids = {name: tokenizer.id_of(name) for name in tokenizer.special.names()}
        named = {name: number for name, number in ids.items() if number is not None}
        return cls(
            tokenizer.size,
            tokenizer.mask_id,
            tuple(sorted(set(named.values()))),
            split,
            named,
            tokenizer.pad_id,
            tokenizer.last_id,
        )

    @cached_property
    def ordinary(self) -> Int64Array:
        """All ids but the special ones."""
        return np.setdiff1d(np.arange(self.vocabulary), np.array(self.special_ids, np.int64))

    def mask(self) -> int:
        """The mask token; a `TokenizerError` if the tokenizer has none."""
        return _required(
            self.mask_id,
            "mask token is None; masking needs one; train a tokenizer with a mask token, or set "
            "show.mask to 0.",
        )

    @cached_property
    def sentinels(self) -> Int64Array:
        """The ids of `<extra_id_0>`, `<extra_id_1>` and so on, as many as there are without a gap.

        Raises:
            TokenizerError: If the tokenizer has none.
        """
        names = takewhile(self.named.__contains__, map(sentinel_name, count()))
        ids = np.array([self.named[name] for name in names], dtype=np.int64)
        if not len(ids):
            raise TokenizerError(
                "the tokenizer has no token <extra_id_0>; a masked span is shown as a sentinel; "
                "train a tokenizer that has them: clozeworks tokenizer train … --family t5."
            )
        return ids

    def start(self) -> int:
        """What a decoder begins with; a `TokenizerError` if the tokenizer has no such token."""
        return _required(
            self.start_id,
            "pad token is None; a decoder begins with it; train a tokenizer that has one: "
            "clozeworks tokenizer train … --family t5.",
        )

    def end(self) -> int:
        """What ends a text; a `TokenizerError` if the tokenizer has no such token."""
        return _required(
            self.end_id,
            "last token is None; it says where an answer ends; train a tokenizer that has one: "
            "clozeworks tokenizer train … --family t5.",
        )

    def corpus(self) -> "Split":
        """The corpus that random tokens are taken from.

        Raises:
            UnsupportedError: If there is no split, or it is empty.
        """
        if self.split is None or not self.split.tokens:
            raise UnsupportedError(
                "show.random_from is 'corpus' and no corpus is available; random tokens then have "
                "nowhere to come from; give a split, or set it to 'vocabulary' or 'ordinary'."
            )
        return self.split


def _required(token: int | None, message: str) -> int:
    if token is None:
        raise TokenizerError(f"the tokenizer's {message}")
    return token


@dataclass
class BatchBuilder:
    """A batch under construction."""

    clean: ExampleArrays
    """The examples before masking."""
    ids: Int64Array
    """The tokens the model will see, (N,)."""
    types: Int64Array
    """Their segment types, (N,)."""
    lengths: Int64Array
    """How many of them each example has, (B,)."""
    targets: dict[str, TargetArrays] = field(default_factory=dict)
    """What is predicted, by the name of the objective."""
    masked_positions: Int64Array | None = None
    """The masked tokens in ascending order, (n,); None before masking."""

    @classmethod
    def of(cls, clean: ExampleArrays) -> "BatchBuilder":
        """Begins with nothing masked and no targets."""
        return cls(clean, clean.ids.copy(), clean.types, clean.lengths)

    def rewrite(self, ids: Int64Array, lengths: Int64Array) -> None:
        """Shows other texts than the clean ones, of other lengths; all their types are 0."""
        self.ids, self.lengths, self.types = ids, lengths, np.zeros_like(ids)


@dataclass(frozen=True)
class BatchTensors:
    """A `Batch` on its device, for a step of training; `step` is None in an evaluation."""

    ids: Tensor
    types: Tensor
    layout: Layout
    targets: Mapping[str, Mapping[str, Tensor]]
    views: int = 1
    step: int | None = None


@dataclass(frozen=True)
class Batch:
    """What a step of training needs, as arrays."""

    ids: Int64Array
    """Token ids after masking, (N,)."""
    types: Int64Array
    """Segment types, (N,)."""
    lengths: Int64Array
    """Tokens of each example, (B,)."""
    targets: Mapping[str, TargetArrays]
    """What is predicted, by the name of the objective."""
    views: int = 1
    """How many neighbouring examples belong together."""
    positions: Int64Array | None = None
    """Where each example stands in the step, (B,); None if micro-batches follow each other."""

    def __len__(self) -> int:
        return len(self.lengths)

    def counts(self) -> dict[str, int]:
        """How many targets each loss term has, known before any forward pass."""
        return {name: len(part[ANSWERS]) for name, part in self.targets.items()}

    def tensors(self, device: torch.device | str = "cpu", step: int | None = None) -> BatchTensors:
        """The batch on a device, for a step of training or for an evaluation.

        To a GPU it goes through pinned memory without waiting, so that copying overlaps with the
        step before. On the CPU nothing is copied.
        """
        to = torch.device(device)

        def moved(array: NDArray[Any]) -> Tensor:
            tensor = torch.from_numpy(np.ascontiguousarray(array))
            if to.type == "cuda":
                tensor = tensor.pin_memory()
            return tensor.to(to, non_blocking=True)

        targets = {
            name: {key: moved(array) for key, array in part.items()}
            for name, part in self.targets.items()
        }
        layout = Layout(self.lengths.tolist())
        return BatchTensors(moved(self.ids), moved(self.types), layout, targets, self.views, step)
