"""A batch in the making: the clean examples, the ids that get hidden, and what is asked.

An objective is handed a `Draft` and a `Source`, writes into `ids`, and leaves what it asks under
its name in `parts`. The entry `answers` of a part holds the right answers, one for each question;
everything else in it is the objective's own affair.

Shapes: N tokens, B examples, n questions, S spans.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clozeworks.core.layout import Layout
from clozeworks.data.arranged import Arranged
from clozeworks.data.corpus import Split
from clozeworks.data.shards import Numbers
from clozeworks.errors import TokenizerError, UnsupportedError
from clozeworks.text.tokenizer import Tokenizer

Part = dict[str, NDArray[Any]]
ANSWERS = "answers"


@dataclass(frozen=True)
class Source:
    """What an objective may look up.

    Attributes:
        vocabulary: The number of token ids.
        mask_id: The id that stands for a gap; None if the tokenizer has none.
        special_ids: The ids that are not text.
        split: The tokens random ones may be taken from; None if there are none at hand.
        pad_id: The padding token, with which answers of an encoder-decoder begin; None if there is
            none.
    """

    vocabulary: int
    mask_id: int | None = None
    special_ids: tuple[int, ...] = ()
    split: Split | None = None
    pad_id: int | None = None

    @classmethod
    def of(cls, tokenizer: Tokenizer, split: Split | None = None) -> "Source":
        """What a tokenizer knows, and the tokens of a split."""
        found = [tokenizer.id_of(name) for name in tokenizer.special.names()]
        special = tuple(sorted({number for number in found if number is not None}))
        return cls(tokenizer.size, tokenizer.mask_id, special, split, tokenizer.pad_id)

    @cached_property
    def ordinary(self) -> Numbers:
        """All ids but the special ones."""
        return np.setdiff1d(np.arange(self.vocabulary), np.array(self.special_ids, np.int64))

    def mask(self) -> int:
        """The id that stands for a gap.

        Raises:
            TokenizerError: There is none.
        """
        if self.mask_id is None:
            raise TokenizerError(
                "the tokenizer's mask token is None; hiding tokens needs one; train a tokenizer "
                "with a mask token, or set show.mask to 0."
            )
        return self.mask_id

    def corpus(self) -> Split:
        """The tokens random ones are taken from.

        Raises:
            UnsupportedError: There are none.
        """
        if self.split is None or not self.split.tokens:
            raise UnsupportedError(
                "show.random_from is 'corpus' and no corpus is at hand; random tokens then have "
                "nowhere to come from; give a split, or set it to 'vocabulary' or 'ordinary'."
            )
        return self.split


@dataclass
class Draft:
    """A batch in the making.

    Attributes:
        clean: The examples before anything is hidden.
        ids: The tokens the model will see, (N,).
        parts: What is asked, by the name of who asks.
        hidden: The hidden tokens in ascending order, (n,); None while nobody hid any.
    """

    clean: Arranged
    ids: Numbers
    parts: dict[str, Part] = field(default_factory=dict)
    hidden: Numbers | None = None

    @classmethod
    def of(cls, clean: Arranged) -> "Draft":
        """Begins with nothing hidden and nothing asked."""
        return cls(clean, clean.ids.copy())


@dataclass(frozen=True)
class Tensors:
    """A batch on its device.

    Attributes:
        ids: Token ids, (N,).
        types: Segment types, (N,).
        layout: Where each example begins and ends.
        parts: What is asked.
        views: How many neighbouring examples belong together.
    """

    ids: Tensor
    types: Tensor
    layout: Layout
    parts: Mapping[str, Mapping[str, Tensor]]
    views: int = 1


@dataclass(frozen=True)
class Batch:
    """What a step of training needs, as arrays.

    Attributes:
        ids: Token ids with what is hidden hidden, (N,).
        types: Segment types, (N,).
        lengths: Tokens of each example, (B,).
        parts: What is asked, by the name of who asks.
        views: How many neighbouring examples belong together.
    """

    ids: Numbers
    types: Numbers
    lengths: Numbers
    parts: Mapping[str, Part]
    views: int = 1

    @classmethod
    def of(cls, draft: Draft) -> "Batch":
        """A finished draft."""
        clean = draft.clean
        return cls(draft.ids, clean.types, clean.lengths, draft.parts, clean.views)

    def __len__(self) -> int:
        return len(self.lengths)

    def counts(self) -> dict[str, int]:
        """How many questions each part asks, known before any forward pass."""
        return {name: len(part[ANSWERS]) for name, part in self.parts.items()}

    def tensors(self, device: torch.device | str = "cpu") -> Tensors:
        """The batch on a device.

        To a GPU it goes through pinned memory without waiting, so that copying overlaps with the
        step before. On the CPU nothing is copied.
        """
        place = torch.device(device)

        def moved(array: NDArray[Any]) -> Tensor:
            tensor = torch.from_numpy(np.ascontiguousarray(array))
            if place.type == "cuda":
                tensor = tensor.pin_memory()
            return tensor.to(place, non_blocking=True)

        parts = {
            name: {key: moved(array) for key, array in part.items()}
            for name, part in self.parts.items()
        }
        layout = Layout(self.lengths.tolist())
        return Tensors(moved(self.ids), moved(self.types), layout, parts, self.views)
