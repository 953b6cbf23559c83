"""What a tokenizer makes of texts, in the words of vLLM, which evaluation harnesses ask for."""

from typing import Any

from pydantic import Field, StrictInt

from clozeworks.errors import InputError
from clozeworks.serve.dialects.openai.bodies import OpenAIBody, check_ids, found
from clozeworks.serve.dialects.openai.chat import ChatTurn, chat_ids, rendered
from clozeworks.serve.dialects.openai.errors import OPENAI
from clozeworks.serve.endpoint import Call, Endpoint
from clozeworks.serve.models import GENERATE, ServedModel


class TokenizeBody(OpenAIBody):
    """A text, or a chat, whose tokens are asked for."""

    prompt: str | None = Field(None, examples=["a text of yours"])
    messages: list[ChatTurn] | None = Field(None, description="A chat instead of a text.")
    add_special_tokens: bool = Field(True, description="Whether tokens are put around a text.")
    return_token_strs: bool | None = Field(None, description="Whether entries are given, too.")


class DetokenizeBody(OpenAIBody):
    """Tokens whose text is asked for."""

    tokens: list[StrictInt] = Field(examples=[[1, 2, 3]])


def _reader(call: Call, name: str | None) -> ServedModel:
    """The model whose tokenizer is meant: of several the only one that writes."""
    writes = name is None and bool(call.models.able(GENERATE))
    return found(call, name, GENERATE if writes else None)


def _tokenized(call: Call, body: TokenizeBody) -> Any:
    if (body.prompt is None) == (body.messages is None):
        raise InputError("prompt or messages must be given, and not both; give one of them.")
    served = _reader(call, body.model)
    model = served.language_model()
    if body.messages is not None:
        text = rendered(model.tokenizer, body.messages, served.name)
        ids = chat_ids(model.writer(chat=True), text)
    else:
        assert body.prompt is not None, "a text or a chat is given"
        (encoded,) = model.tokenizer.encode([body.prompt], special=body.add_special_tokens)
        ids = list(encoded.ids)
    call.check_tokens(len(ids), "ids")
    names = [*map(model.tokenizer.token_of, ids)] if body.return_token_strs else None
    return {
        "count": len(ids),
        "max_model_len": model.max_length,
        "tokens": ids,
        "token_strs": names,
    }


def _detokenized(call: Call, body: DetokenizeBody) -> Any:
    tokenizer = _reader(call, body.model).language_model().tokenizer
    if body.tokens:
        check_ids(tokenizer, [body.tokens], "tokens")
    return {"prompt": tokenizer.decode(body.tokens, skip_special=False)}


def _described(call: Call, body: None) -> Any:
    served = _reader(call, None)
    model = served.language_model()
    tokenizer = model.tokenizer
    return {
        "model": served.name,
        "tokenizer_class": "PreTrainedTokenizerFast",
        # Harnesses ask whether the server says it at all.
        **{"bos_token": None, "eos_token": None, "pad_token": None, **tokenizer.chat.special},
        "chat_template": tokenizer.chat.source if tokenizer.has_chat_template else None,
        "model_max_length": model.max_length,
        "vocab_size": tokenizer.size,
    }


def tokens_endpoints() -> list[Endpoint]:
    """Texts to tokens and back, and the tokenizer itself."""
    return [
        Endpoint(
            path="/tokenize",
            summary="turn a text into tokens",
            answer=_tokenized,
            dialect=OPENAI,
            body=TokenizeBody,
            fields=frozenset({"prompt", "messages"}),
            examples={"one": {"prompt": "a text of yours", "add_special_tokens": False}},
        ),
        Endpoint(
            path="/detokenize",
            summary="turn tokens into a text",
            answer=_detokenized,
            dialect=OPENAI,
            body=DetokenizeBody,
            examples={"one": {"tokens": [1, 2, 3]}},
        ),
        Endpoint(
            path="/tokenizer_info",
            summary="describe the tokenizer",
            answer=_described,
            dialect=OPENAI,
            method="GET",
        ),
    ]
