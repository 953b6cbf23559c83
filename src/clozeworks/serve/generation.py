"""Our own way to have texts written: prompts or a chat, as a whole or token by token."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ConfigDict, Field

from clozeworks.errors import InputError
from clozeworks.generate.settings import Generation
from clozeworks.inference.prompt_logprobs import TokenChance
from clozeworks.inference.streaming import StreamChunk, Token, WrittenText
from clozeworks.serve.dialects.openai.chat import ChatTurn, chat_ids, rendered
from clozeworks.serve.endpoint import Call, Endpoint, Stream
from clozeworks.serve.models import GENERATE, ServedModel
from clozeworks.serve.native_body import NativeBody, answer_of, usage_of
from clozeworks.serve.replies import NATIVE
from clozeworks.serve.token_texts import TokenTexts
from clozeworks.text.tokenizer.tokenizer import Tokenizer


class GenerateBody(NativeBody):
    """Prompts to be continued or answered, with the settings of `generate`."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())

    inputs: str | list[str] | None = None
    messages: list[ChatTurn] | None = Field(
        None, description="A chat that goes on, instead of inputs."
    )
    chat: bool = Field(False, description="Each prompt is what a user says in a chat.")
    stream: bool = False
    show: bool = Field(
        False,
        description="A stream also says the prompt as the model reads it, and each token as a page "
        "shows it.",
    )


def _generated(call: Call, body: GenerateBody) -> Any:
    served = call.model(body.model, GENERATE)
    model, settings = served.language_model(), dict(body.model_extra or {})
    if "settings" in settings or "progress" in settings:
        raise InputError("settings are fields of the body itself; write max_new_tokens=… there.")
    if (body.inputs is None) == (body.messages is None):
        raise InputError("inputs or messages must be given, and not both; give one of them.")
    if body.show and not body.stream:
        raise InputError("show is for streams; set stream to true, too, or leave show out.")
    texts = [body.inputs] if isinstance(body.inputs, str) else [*(body.inputs or [])]
    count = settings.get("num_return_sequences")
    if isinstance(count, int):
        call.check_count(max(1, len(texts)) * count, "texts to be written")
    if body.stream:
        return Stream(_events(call, served, body, texts, Generation.of(**settings)))
    if body.messages is not None:
        found: Sequence[Any] = [_answered(served, body.messages, Generation.of(**settings))]
    else:
        found = model.generate(texts, chat=body.chat, **settings)
    outputs = [
        [each.to_dict() for each in several] if isinstance(several, list) else several.to_dict()
        for several in found
    ]
    return answer_of(call, served.name, outputs, one=not isinstance(body.inputs, list))


def _answered(served: ServedModel, messages: Sequence[ChatTurn], settings: Generation) -> Any:
    writer = served.language_model().writer(chat=True)
    ids = chat_ids(writer, rendered(writer.tokenizer, messages, served.name))
    ((first, *others),) = writer.all([ids], settings)
    return [first, *others] if settings.num_return_sequences > 1 else first


def _events(
    call: Call, served: ServedModel, body: GenerateBody, texts: Sequence[str], settings: Generation
) -> Iterator[Mapping[str, Any]]:
    model = served.language_model()
    writer = model.writer(chat=body.chat or body.messages is not None)
    prompts: list[Any] = list(texts)
    read: list[str] = list(texts)
    if body.messages is not None:
        read = [rendered(writer.tokenizer, body.messages, served.name)]
        prompts = [chat_ids(writer, read[0])]
    chunks = writer.stream(prompts, settings)
    ids = writer.read(prompts) if body.show else []
    if body.show:
        yield {"prompts": read, "input_tokens": [len(each) for each in ids]}
    before = ids if model.blueprint.decoder is None else [[]] * len(ids)
    shown = [
        [_ShownTokens(writer.tokenizer, own) for _ in range(settings.num_return_sequences)]
        for own in before
    ]
    for chunk in chunks:
        event: dict[str, Any] = {
            "prompt": chunk.prompt,
            "number": chunk.number,
            "text": chunk.text,
        }
        if body.show:
            event["tokens"] = shown[chunk.prompt][chunk.number].new(chunk)
        if chunk.whole is not None:
            event["whole"] = chunk.whole.to_dict()
        yield event
    yield {"model": served.name, "usage": usage_of(call)}


class _ShownTokens:
    """The tokens of one text, as they come, with the text that each stands for there."""

    def __init__(self, tokenizer: Tokenizer, before: Sequence[int]) -> None:
        self._tokenizer, self._texts = tokenizer, TokenTexts(tokenizer, before)
        self._count = 0

    def new(self, chunk: StreamChunk) -> list[dict[str, Any]]:
        """Those that a chunk added: of a search all at once."""
        text: WrittenText = chunk.whole or chunk.so_far()
        added, self._count = text.tokens[self._count :], len(text.tokens)
        return [self._shown(each) for each in added]

    def _shown(self, token: Token) -> dict[str, Any]:
        number = self._tokenizer.id_of
        others = [(name, log) for name, log in token.others if number(name) is not None]
        known = tuple((number(name) or 0, log) for name, log in others)
        placed = self._texts.add(TokenChance(number(token.text) or 0, token.log, known))
        return {
            "token": token.text,
            "text": placed.text,
            "log": placed.log,
            "others": [
                {"token": name, "text": text, "log": log}
                for (name, _), (text, _, log) in zip(others, placed.others, strict=True)
            ],
        }


def generation_endpoint() -> Endpoint:
    """Continues or answers prompts."""
    return Endpoint(
        path="/v1/generate",
        summary="continue or answer prompts",
        answer=_generated,
        dialect=NATIVE,
        body=GenerateBody,
        examples={
            "one": {"inputs": "Once upon", "max_new_tokens": 20},
            "stream": {"inputs": "Once upon", "max_new_tokens": 20, "stream": True},
        },
    )
