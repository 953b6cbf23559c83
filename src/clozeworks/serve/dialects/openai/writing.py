"""How texts are written for OpenAI's clients: their settings, and each choice of an answer."""

import secrets
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel, Field

from clozeworks.errors import InputError
from clozeworks.generate.sampling import FinishReason
from clozeworks.generate.settings import Generation
from clozeworks.inference.prompt_logprobs import TokenChance
from clozeworks.inference.streaming import StreamChunk, Token, WrittenText
from clozeworks.serve.dialects.openai.bodies import OpenAIBody
from clozeworks.serve.token_texts import PlacedToken, TokenTexts
from clozeworks.text.tokenizer.tokenizer import Tokenizer

_SEED_BITS = 62
MOST_ALTERNATIVES = 20
REASONS = {"end": "stop", "stop": "stop", "length": "length"}


class StreamOptions(BaseModel):
    """What a stream holds beside texts."""

    include_usage: bool | None = Field(
        None, description="Whether a last chunk says how many tokens were read and written."
    )


class WritingBody(OpenAIBody):
    """How a text is written."""

    temperature: float | None = Field(
        None,
        ge=0,
        description="0 takes the likeliest token each time; 1 draws tokens by their probabilities, "
        "and is what happens if it is not given.",
        examples=[0],
    )
    top_p: float | None = Field(None, ge=0, le=1, description="As in `generate`.")
    top_k: int | None = Field(None, ge=-1, description="As in `generate`; 0 and -1 for none.")
    min_p: float | None = Field(None, ge=0, le=1, description="As in `generate`; 0 for none.")
    seed: int | None = Field(
        None, description="The same seed and prompt give the same text; drawn if not given."
    )
    n: int | None = Field(None, ge=1, le=128, description="How many texts for each prompt.")
    best_of: int | None = Field(None, ge=1, description="Only the value of `n` is taken.")
    stop: str | list[str] | None = Field(
        None, description="A text ends before the first of these.", examples=["\n"]
    )
    presence_penalty: float | None = Field(None, description="As in `generate`.")
    frequency_penalty: float | None = Field(None, description="As in `generate`.")
    repetition_penalty: float | None = Field(None, description="As in `generate`.")
    min_tokens: int | None = Field(None, ge=0, description="`min_new_tokens` of `generate`.")
    logit_bias: dict[str, float] | None = Field(None, description="Only an empty one is taken.")
    stream: bool | None = Field(None, description="Whether the text comes as it is written.")
    stream_options: StreamOptions | None = None

    @property
    def samples(self) -> bool:
        """Whether tokens are drawn."""
        return self.temperature is None or self.temperature > 0

    @property
    def texts(self) -> int:
        """How many for each prompt."""
        return self.n or 1

    @property
    def asks_usage(self) -> bool:
        """Whether a stream ends with what was read and written."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    @property
    def is_plain(self) -> bool:
        """Whether the likeliest token is taken as it is, once for each prompt."""
        changes = (self.presence_penalty, self.frequency_penalty, self.min_tokens, self.stop)
        return not (
            self.samples
            or self.texts > 1
            or any(changes)
            or self.repetition_penalty not in (None, 1)
        )

    def settings(self, max_new_tokens: int, top_logprobs: int) -> Generation:
        """The settings of `generate`.

        Raises:
            InputError: If a field asks for what cannot be done.
            SettingError: If a value cannot be used.
        """
        if self.logit_bias:
            raise InputError(
                "logit_bias is given; single tokens cannot be made likelier here; leave it out."
            )
        if self.best_of not in (None, self.texts):
            raise InputError(
                f"best_of is {self.best_of}; all texts that are written are returned, {self.texts} "
                "here; set n instead."
            )
        if self.texts > 1 and not self.samples:
            raise InputError(
                f"n is {self.texts} and temperature 0; without drawing all texts would be equal; "
                "raise temperature, or leave out n."
            )
        drawn: dict[str, Any] = {"sample": False}
        if self.samples:
            seed = secrets.randbits(_SEED_BITS) if self.seed is None else self.seed
            drawn = {
                "sample": True,
                "temperature": self.temperature,
                "top_p": None if self.top_p == 1 else self.top_p,
                "top_k": self.top_k if self.top_k is not None and self.top_k > 0 else None,
                "min_p": self.min_p or None,
                "seed": seed % 2**63,  # Compat: clients send -1, too
            }
        return Generation.of(
            **drawn,
            max_new_tokens=max_new_tokens,
            min_new_tokens=self.min_tokens,
            stop=None if self.stop is None or self.stop == [] else self.stop,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            repetition_penalty=self.repetition_penalty,
            num_return_sequences=self.texts,
            top_logprobs=top_logprobs,
        )


def chances_of(tokenizer: Tokenizer, tokens: Iterable[Token]) -> list[TokenChance]:
    """Generated tokens by their ids."""
    found = []
    for each in tokens:
        named = [(tokenizer.id_of(name), log) for name, log in each.others]
        token = tokenizer.id_of(each.text)
        assert token is not None, "a token that was written has an entry"
        others = tuple((other, log) for other, log in named if other is not None)
        found.append(TokenChance(token, each.log, others))
    return found


class GrowingChoice:
    """One choice of an answer while it is written, or after that.

    Args:
        tokenizer: The model's tokenizer.
        before: The tokens before it.
        offset: Characters of the answer before it.
        shows_tokens: Whether its tokens are asked for.
    """

    def __init__(
        self, tokenizer: Tokenizer, before: Sequence[int], offset: int = 0, *, shows_tokens: bool
    ) -> None:
        self._tokenizer, self._shows_tokens = tokenizer, shows_tokens
        self._texts = TokenTexts(tokenizer, before, offset)
        self._offset, self._length = offset, 0
        self._held: deque[PlacedToken] = deque()
        self.count = 0
        """How many tokens it has."""
        self.reason: FinishReason | None = None

    def add(self, chunk: StreamChunk) -> tuple[str, list[PlacedToken]]:
        """The text that became certain with a chunk, and the tokens that are certain with it."""
        self.count += 1
        self._length += len(chunk.text)
        if self._shows_tokens:
            (token,) = chances_of(self._tokenizer, chunk.so_far().tokens[-1:])
            self._held.append(self._texts.add(token))
        if chunk.whole is not None:
            self.reason = chunk.whole.finish_reason
        return chunk.text, self._certain()

    def whole(self, text: WrittenText) -> list[PlacedToken]:
        """The tokens of a whole text."""
        self.count, self._length, self.reason = len(text.tokens), len(text.text), text.finish_reason
        if self._shows_tokens:
            self._held += map(self._texts.add, chances_of(self._tokenizer, text.tokens))
        return self._certain()

    def one(self, token: TokenChance, reason: FinishReason) -> PlacedToken:
        """The only token of a text that ends with it."""
        self.count, self.reason = 1, reason
        return self._texts.add(token)

    def _certain(self) -> list[PlacedToken]:
        """Tokens whose text has been given; at the end all but those of a stop string."""
        shown, tokens = self._offset + self._length, []
        while self._held:
            first = self._held[0]
            if self.reason == "stop" and first.offset >= shown:
                self._held.clear()
            elif self.reason is None and first.end > shown:
                break
            else:
                tokens.append(self._held.popleft())
        return tokens
