"""Answers in chats, as OpenAI's clients ask for them."""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from clozeworks.errors import InputError
from clozeworks.inference.generate import TextWriter
from clozeworks.inference.streaming import StreamChunk
from clozeworks.serve.dialects.openai.bodies import found, headed, usage
from clozeworks.serve.dialects.openai.errors import OPENAI
from clozeworks.serve.dialects.openai.writing import (
    MOST_ALTERNATIVES,
    REASONS,
    GrowingChoice,
    WritingBody,
)
from clozeworks.serve.endpoint import Call, Endpoint, Stream
from clozeworks.serve.models import GENERATE
from clozeworks.serve.token_texts import PlacedToken, chat_logprobs
from clozeworks.text.tokenizer.tokenizer import Tokenizer

# Where a client does not say how much is written.
_TOKENS = 512
# Compat: newer clients call the system so; templates know the older name.
_ROLES = {"developer": "system"}


class ChatPart(BaseModel):
    """A part of a message."""

    model_config = ConfigDict(extra="ignore")

    type: str
    text: str | None = None


class ChatTurn(BaseModel):
    """A message."""

    model_config = ConfigDict(extra="ignore")

    role: str = Field(min_length=1, examples=["user"])
    content: str | list[ChatPart] | None = Field(None, examples=["Good morning"])


class ResponseFormat(BaseModel):
    """What an answer must be."""

    type: str


class ChatBody(WritingBody):
    """A chat that is to go on."""

    messages: list[ChatTurn] = Field(
        min_length=1, examples=[[{"role": "user", "content": "Good morning"}]]
    )
    max_tokens: int | None = Field(None, ge=1, description="512 if it is not given.")
    max_completion_tokens: int | None = Field(None, ge=1, description="The same by its newer name.")
    logprobs: bool | None = Field(None, description="Whether tokens come with log probabilities.")
    top_logprobs: int | None = Field(
        None, ge=0, le=MOST_ALTERNATIVES, description="How many alternatives each has; needs them."
    )
    tools: list[Any] | None = Field(None, description="Only an empty list is taken.")
    response_format: ResponseFormat | None = Field(None, description="Only text is taken.")

    def check(self) -> None:
        """Checks what single fields do not show.

        Raises:
            InputError: If fields contradict each other, or ask for what cannot be done.
        """
        if self.tools:
            raise InputError("tools are given; models here call none; leave them out.")
        if self.response_format is not None and self.response_format.type != "text":
            raise InputError(
                f"response_format is {self.response_format.type!r}; answers are texts; leave it "
                "out."
            )
        if self.top_logprobs and not self.logprobs:
            raise InputError("top_logprobs is given without logprobs; set logprobs to true, too.")


def rendered(tokenizer: Tokenizer, messages: Sequence[ChatTurn], name: str) -> str:
    """A chat as the tokenizer's template writes it, up to where the assistant begins.

    Raises:
        InputError: If there is no template, it does not take such a chat, or a part is no text.
    """
    if not tokenizer.has_chat_template:
        raise InputError(
            f"messages cannot be written: {name} has no chat template; ask /v1/completions, or add "
            "chat_template to its tokenizer_config.json."
        )
    turns = [
        {"role": _ROLES.get(each.role, each.role), "content": _content(each, number)}
        for number, each in enumerate(messages)
    ]
    return tokenizer.chat.render(turns, asks=True, source_location="messages")


def _content(turn: ChatTurn, number: int) -> str:
    if turn.content is None or isinstance(turn.content, str):
        return turn.content or ""
    for part in turn.content:
        if part.type != "text" or part.text is None:
            raise InputError(
                f"messages[{number}] has a part of type {part.type!r}; models here read texts; "
                'write {"type": "text", "text": …}.'
            )
    return "\n".join(part.text or "" for part in turn.content)


def chat_ids(writer: TextWriter, text: str) -> list[int]:
    """The token ids of a chat; its template has written all special tokens of a decoder."""
    special = writer.model.decoder is not None
    return list(writer.tokenizer.encode([text], special=special)[0].ids)


def _chatted(call: Call, body: ChatBody) -> Any:
    body.check()
    served = found(call, body.model, GENERATE)
    writer = served.language_model().writer(chat=True)
    most = body.max_completion_tokens or body.max_tokens or _TOKENS
    settings = body.settings(most, body.top_logprobs or 0)
    ids = chat_ids(writer, rendered(writer.tokenizer, body.messages, served.name))
    chunks = writer.stream([ids], settings)
    choices = [
        GrowingChoice(writer.tokenizer, ids, shows_tokens=bool(body.logprobs))
        for _ in range(body.texts)
    ]
    if body.stream:
        head = headed(call, "chat.completion.chunk", served.name, "chatcmpl")
        return Stream(_events(body, head, chunks, choices, len(ids)), "[DONE]")
    answers: list[dict[str, Any]] = [{}] * body.texts
    for chunk in chunks:
        if chunk.whole is None:
            continue
        choice = choices[chunk.number]
        tokens = choice.whole(chunk.whole)
        message = {"role": "assistant", "content": chunk.whole.text, "refusal": None}
        answers[chunk.number] = {
            "index": chunk.number,
            "message": message,
            "logprobs": _logprobs(body, tokens),
            "finish_reason": _reason(choice),
        }
    head = headed(call, "chat.completion", served.name, "chatcmpl")
    written = sum(each.count for each in choices)
    return {**head, "choices": answers, "usage": usage(len(ids), written)}


def _logprobs(body: ChatBody, tokens: Sequence[PlacedToken]) -> dict[str, Any] | None:
    return chat_logprobs(tokens, body.top_logprobs or 0) if body.logprobs else None


def _reason(choice: GrowingChoice) -> str | None:
    return None if choice.reason is None else REASONS[choice.reason]


def _events(
    body: ChatBody,
    head: dict[str, Any],
    chunks: Iterator[StreamChunk],
    choices: Sequence[GrowingChoice],
    read: int,
) -> Iterator[dict[str, Any]]:
    """The chunks of a stream: who speaks, what is certain of texts, why they end, the usage."""
    no_usage: dict[str, Any] = {"usage": None} if body.asks_usage else {}

    def event(
        index: int, delta: dict[str, Any], tokens: Sequence[PlacedToken], reason: str | None
    ) -> dict[str, Any]:
        choice = {
            "index": index,
            "delta": delta,
            "logprobs": _logprobs(body, tokens) if tokens else None,
            "finish_reason": reason,
        }
        return {**head, "choices": [choice], **no_usage}

    # Whoever is refused shall be told so before anything else.
    begun = [*islice(chunks, 1)]
    for index in range(len(choices)):
        yield event(index, {"role": "assistant", "content": ""}, (), None)
    for chunk in chain(begun, chunks):
        choice = choices[chunk.number]
        text, tokens = choice.add(chunk)
        if text or tokens:
            yield event(chunk.number, {"content": text}, tokens, None)
        if choice.reason is not None:
            yield event(chunk.number, {}, (), _reason(choice))
    if body.asks_usage:
        written = sum(each.count for each in choices)
        yield {**head, "choices": [], "usage": usage(read, written)}


def chat_endpoints() -> list[Endpoint]:
    """Answers in chats."""
    messages = [{"role": "user", "content": "Good morning"}]
    return [
        Endpoint(
            path="/v1/chat/completions",
            summary="answer in a chat",
            answer=_chatted,
            dialect=OPENAI,
            body=ChatBody,
            examples={
                "one": {"messages": messages, "max_tokens": 40, "temperature": 0},
                "stream": {"messages": messages, "max_tokens": 40, "stream": True},
            },
        )
    ]
