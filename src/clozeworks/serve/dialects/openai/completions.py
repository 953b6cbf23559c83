"""Continuations of prompts, as OpenAI's clients ask for them.

With `echo` the prompt stands before its continuation, and with `logprobs`, too, each of its tokens
is scored; evaluation harnesses ask so. If they want one token more, greedily, the pass that scores
the prompt gives it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from clozeworks.errors import InputError
from clozeworks.generate.settings import Generation
from clozeworks.inference.generate import TextWriter
from clozeworks.inference.prompt_logprobs import PromptChances, prompt_logprobs
from clozeworks.inference.streaming import StreamChunk
from clozeworks.serve.dialects.openai.bodies import (
    TextsOrIds,
    TruncatePromptTokens,
    check_ids,
    cut_to,
    found,
    headed,
    several,
    usage,
    warn_of_ids,
)
from clozeworks.serve.dialects.openai.errors import OPENAI
from clozeworks.serve.dialects.openai.writing import (
    MOST_ALTERNATIVES,
    REASONS,
    GrowingChoice,
    WritingBody,
)
from clozeworks.serve.endpoint import Call, Endpoint, Stream
from clozeworks.serve.models import GENERATE, ServedModel
from clozeworks.serve.token_texts import (
    PlacedToken,
    TokenTexts,
    completion_logprobs,
)

# Compat: what OpenAI's server writes where a client does not say how much.
_TOKENS = 16


class CompletionsBody(WritingBody):
    """Prompts to be continued."""

    prompt: TextsOrIds = Field(
        description="One prompt or several; or token ids, which are read as they are.",
        examples=["Once upon", ["Once upon", "The end"]],
    )
    max_tokens: int | None = Field(
        None, ge=0, description="16 if it is not given; 0 only with echo.", examples=[40]
    )
    logprobs: int | None = Field(
        None,
        ge=0,
        le=MOST_ALTERNATIVES,
        description="Each token is shown with its log probability and so many alternatives.",
        examples=[1],
    )
    echo: bool | None = Field(None, description="Whether the prompt stands before the text.")
    suffix: str | None = Field(None, description="Only an empty one is taken.")
    truncate_prompt_tokens: TruncatePromptTokens = None

    @property
    def most_tokens(self) -> int:
        """How many tokens are written at most."""
        return _TOKENS if self.max_tokens is None else self.max_tokens

    @property
    def scores_prompts(self) -> bool:
        """Whether the tokens of prompts are scored."""
        return bool(self.echo) and self.logprobs is not None


@dataclass(frozen=True)
class _EchoedPrompt:
    """A prompt, and what of it stands in the answer."""

    ids: list[int]
    text: str = ""
    tokens: Sequence[PlacedToken] = ()
    chances: PromptChances | None = None


@dataclass(frozen=True)
class _Completion:
    """A request that was read: everything that is needed to answer it."""

    call: Call
    served: ServedModel
    body: CompletionsBody
    writer: TextWriter
    settings: Generation
    prompts: list[_EchoedPrompt]
    head: dict[str, Any]

    @classmethod
    def of(cls, call: Call, body: CompletionsBody) -> "_Completion":
        """Reads a request; prompts are scored if that is asked.

        Raises:
            ClozeworksError: If something in it cannot be used.
        """
        if body.suffix:
            raise InputError(
                "suffix is given; texts are continued at their end alone; leave it out."
            )
        if body.most_tokens == 0 and not body.echo:
            raise InputError("max_tokens is 0; nothing would be written; raise it, or set echo.")
        served = found(call, body.model, GENERATE)
        writer = served.language_model().writer()
        settings = body.settings(max(body.most_tokens, 1), body.logprobs or 0)
        ids = _read(call, served, writer, body)
        call.check_count(len(ids) * body.texts, "texts to be written")
        if body.scores_prompts:
            call.check_tokens(sum(map(len, ids)), "log probabilities")
        prompts = _echoed(served, body, ids)
        head = headed(call, "text_completion", served.name, "cmpl")
        return cls(call, served, body, writer, settings, prompts, head)

    @property
    def read(self) -> int:
        """The tokens of all prompts."""
        return sum(len(each.ids) for each in self.prompts)

    def chunks(self) -> Iterator[StreamChunk]:
        """What the model writes."""
        return self.writer.stream([each.ids for each in self.prompts], self.settings)

    def choices(self) -> list[GrowingChoice]:
        """A choice for each text that is written."""
        ids = (each for each in self.prompts for _ in range(self.body.texts))
        shows = self.body.logprobs is not None
        tokenizer = self.writer.tokenizer
        return [
            GrowingChoice(tokenizer, each.ids, len(each.text), shows_tokens=shows) for each in ids
        ]

    def choice(
        self, index: int, text: str, tokens: Sequence[PlacedToken], reason: str | None
    ) -> dict[str, Any]:
        """A choice, or what a chunk adds to it."""
        logprobs = self.body.logprobs
        return {
            "index": index,
            "text": text,
            "logprobs": None if logprobs is None else completion_logprobs(tokens, logprobs),
            "finish_reason": reason,
        }


def _read(
    call: Call, served: ServedModel, writer: TextWriter, body: CompletionsBody
) -> list[list[int]]:
    """The token ids of all prompts; the end of those that may be cut."""
    given = several(body.prompt, "prompt")
    if not isinstance(given[0], str):
        check_ids(writer.tokenizer, given, "prompt")
        warn_of_ids(call, served)
    asked = cut_to(body.truncate_prompt_tokens)
    if not asked:
        return writer.encode(given)
    room = None if writer.room is None else max(writer.room - body.most_tokens, 1)
    most = min(filter(None, (asked.get("max_length"), room)), default=None)
    return [ids if most is None else ids[-most:] for ids in writer.read(given)]


def _echoed(
    served: ServedModel, body: CompletionsBody, several_ids: Sequence[list[int]]
) -> list[_EchoedPrompt]:
    """Prompts with what of them stands in the answer, and how likely their tokens are."""
    if not body.echo:
        return [_EchoedPrompt(ids) for ids in several_ids]
    model = served.language_model()
    tokenizer = model.tokenizer
    given = several(body.prompt, "prompt")
    texts = [
        each
        if isinstance(each, str) and body.truncate_prompt_tokens is None
        else tokenizer.decode(ids, skip_special=False)
        for each, ids in zip(given, several_ids, strict=True)
    ]
    if body.logprobs is None:
        return [_EchoedPrompt(ids, text) for ids, text in zip(several_ids, texts, strict=True)]
    scored = prompt_logprobs(model.model, several_ids, others=body.logprobs, entries=tokenizer.size)
    found = []
    for ids, text, chances in zip(several_ids, texts, scored, strict=True):
        placed = TokenTexts(tokenizer)
        found.append(_EchoedPrompt(ids, text, [*map(placed.add, chances.tokens)], chances))
    return found


def _completed(call: Call, body: CompletionsBody) -> Any:
    asked = _Completion.of(call, body)
    if body.stream:
        return Stream(_events(asked), "[DONE]")
    several_choices = asked.choices()
    answers: list[dict[str, Any]] = [{}] * len(several_choices)
    if body.most_tokens == 0:
        for index, prompt in enumerate(asked.prompts):
            answers[index] = asked.choice(index, prompt.text, prompt.tokens, "length")
    elif body.scores_prompts and body.most_tokens == 1 and body.is_plain:
        for index, prompt in enumerate(asked.prompts):
            answers[index] = _followed(asked, index, prompt, several_choices[index])
    else:
        for chunk in asked.chunks():
            if chunk.whole is None:
                continue
            index = chunk.prompt * body.texts + chunk.number
            prompt, own = asked.prompts[chunk.prompt], several_choices[index]
            tokens = [*prompt.tokens, *own.whole(chunk.whole)]
            assert own.reason is not None, "a whole text has ended"
            text = prompt.text + chunk.whole.text
            answers[index] = asked.choice(index, text, tokens, REASONS[own.reason])
    written = sum(each.count for each in several_choices)
    return {**asked.head, "choices": answers, "usage": usage(asked.read, written)}


def _followed(
    asked: _Completion, index: int, prompt: _EchoedPrompt, choice: GrowingChoice
) -> dict[str, Any]:
    """A prompt and the likeliest token after it, both from the pass that scored the prompt."""
    assert prompt.chances is not None, "the prompt was scored"
    following = prompt.chances.following
    ends = following.token in asked.writer.ends
    text = "" if ends else asked.writer.tokenizer.continued(prompt.ids, [following.token])
    token = choice.one(following, "end" if ends else "length")
    return asked.choice(
        index, prompt.text + text, [*prompt.tokens, token], REASONS["end" if ends else "length"]
    )


def _events(asked: _Completion) -> Iterator[dict[str, Any]]:
    """The chunks of a stream: the prompt if it is echoed, what is certain of texts, the usage."""
    body, several_choices = asked.body, asked.choices()
    no_usage: dict[str, Any] = {"usage": None} if body.asks_usage else {}

    def event(*parts: Any) -> dict[str, Any]:
        return {**asked.head, "choices": [asked.choice(*parts)], **no_usage}

    if body.echo:
        ended = "length" if body.most_tokens == 0 else None
        for index in range(len(several_choices)):
            prompt = asked.prompts[index // body.texts]
            yield event(index, prompt.text, prompt.tokens, ended)
    for chunk in asked.chunks() if body.most_tokens else ():
        index = chunk.prompt * body.texts + chunk.number
        choice = several_choices[index]
        text, tokens = choice.add(chunk)
        if text or tokens or choice.reason is not None:
            reason = None if choice.reason is None else REASONS[choice.reason]
            yield event(index, text, tokens, reason)
    if body.asks_usage:
        written = sum(each.count for each in several_choices)
        yield {**asked.head, "choices": [], "usage": usage(asked.read, written)}


def completions_endpoints() -> list[Endpoint]:
    """Continuations."""
    return [
        Endpoint(
            path="/v1/completions",
            summary="continue prompts",
            answer=_completed,
            dialect=OPENAI,
            body=CompletionsBody,
            examples={
                "one": {"prompt": "Once upon", "max_tokens": 20, "temperature": 0},
                "scores of a prompt": {
                    "prompt": "Once upon a time", "max_tokens": 0, "echo": True, "logprobs": 1,
                },
                "stream": {"prompt": "Once upon", "max_tokens": 20, "stream": True},
            },
        )
    ]  # fmt: skip
