"""The tokens of growing texts, as rules about repetition look at them.

Shapes: n rows, L columns in use.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


class History:
    """The tokens of every row, those of its prompt first; rows end in the same column."""

    def __init__(
        self, texts: Sequence[Sequence[int]], max_new_tokens: int, device: torch.device
    ) -> None:
        """Takes the prompt of each row, and how many tokens may follow."""
        longest = max((len(text) for text in texts), default=0)
        self.prompt_lengths = [len(text) for text in texts]
        self.used = longest
        self._tokens = torch.zeros(len(texts), longest + max_new_tokens, dtype=torch.long)
        for row, text in enumerate(texts):
            self._tokens[row, longest - len(text) : longest] = torch.tensor(text, dtype=torch.long)
        self._prompt_end = longest
        self._device = device

    @property
    def written(self) -> int:
        """How many tokens were generated so far; the same for every row."""
        return self.used - self._prompt_end

    def add(self, tokens: Tensor) -> None:
        """One more token of every row, (n,)."""
        self._tokens[:, self.used] = tokens.cpu()
        self.used += 1

    def choose(self, rows: Sequence[int]) -> None:
        """Goes on with these rows, in this order."""
        self._tokens = self._tokens[list(rows)]
        self.prompt_lengths = [self.prompt_lengths[row] for row in rows]

    def tokens(self) -> Tensor:
        """All tokens, (n, L); a row shorter than others repeats its last token before its first."""
        begins = torch.tensor([self._prompt_end - length for length in self.prompt_lengths])
        columns = torch.arange(self.used)
        shown = self._tokens[:, : self.used]
        if begins.any():
            shown = torch.where(columns >= begins[:, None], shown, shown[:, -1:])
        return shown.to(self._device)

    def written_tokens(self) -> Tensor:
        """The generated tokens, (n, written)."""
        return self._tokens[:, self._prompt_end : self.used].to(self._device)

    def row(self, row: int) -> list[int]:
        """All tokens of one row."""
        begin = self._prompt_end - self.prompt_lengths[row]
        tokens: list[int] = self._tokens[row, begin : self.used].tolist()
        return tokens

    def written_row(self, row: int) -> list[int]:
        """The generated tokens of one row."""
        tokens: list[int] = self._tokens[row, self._prompt_end : self.used].tolist()
        return tokens
