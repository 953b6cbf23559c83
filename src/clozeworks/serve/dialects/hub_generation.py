"""Texts that a model writes, in the words of text-generation-inference (TGI).

`InferenceClient.text_generation` sends a prompt and TGI's parameters and reads one text, a text
with details, or a stream of tokens; `summarization` and `translation` send a text and read what was
written for it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from clozeworks import config
from clozeworks.errors import InputError
from clozeworks.inference.streaming import StreamChunk, Token, WrittenText
from clozeworks.language_model import LanguageModel
from clozeworks.serve.endpoint import Stream
from clozeworks.serve.models import ServedModel
from clozeworks.tasks.text_to_text.task import TextToText, Writing
from clozeworks.text.tokenizer.tokenizer import Tokenizer

WRITE = TextToText.item_type.command
# What TGI writes if nobody says how much.
_USUAL_TOKENS = 100
_REASONS = {"end": "eos_token", "stop": "stop_sequence", "length": "length"}
# Parameters of TGI that nothing here does, with the values that ask for nothing.
_UNKNOWN = {
    "adapter_id": (None,),
    "best_of": (None, 1),
    "decoder_input_details": (None, False),
    "grammar": (None,),
    "truncate": (None,),
    "watermark": (None, False),
}


class GenerationParameters(BaseModel):
    """How a prompt is continued, as TGI has it."""

    model_config = ConfigDict(extra="forbid")

    max_new_tokens: int | None = Field(None, ge=1)
    do_sample: bool | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    typical_p: float | None = None
    seed: int | None = None
    stop: list[str] | None = None
    stop_sequences: list[str] | None = None
    repetition_penalty: float | None = None
    frequency_penalty: float | None = None
    return_full_text: bool | None = Field(None, description="Whether the prompt stands before it.")
    details: bool | None = Field(None, description="Whether each token is shown.")
    top_n_tokens: int | None = Field(None, ge=0, description="Alternatives of each token.")
    adapter_id: str | None = None
    best_of: int | None = None
    decoder_input_details: bool | None = None
    grammar: Any = None
    truncate: int | None = None
    watermark: bool | None = None

    def settings(self) -> dict[str, Any]:
        """The settings of `generate`.

        Raises:
            InputError: If something is asked for that nothing here does.
        """
        for name, nothing in _UNKNOWN.items():
            if (value := getattr(self, name)) not in nothing:
                raise InputError(
                    f"parameters.{name} is {value!r:.80}; this server does not do that; leave it "
                    "out."
                )
        drawn = {
            "temperature": self.temperature,
            "top_k": self.top_k,
            "top_p": self.top_p,
            "typical": self.typical_p,
        }
        # Compat: where something of this is set TGI samples, and a seed alone changes nothing.
        samples = bool(self.do_sample) or any(each is not None for each in drawn.values())
        return {
            **drawn,
            "sample": True if samples else None,
            "seed": self.seed if samples else None,
            "max_new_tokens": self.max_new_tokens or _USUAL_TOKENS,
            "stop": self.stop or self.stop_sequences,
            "repetition_penalty": self.repetition_penalty,
            "frequency_penalty": self.frequency_penalty,
            "top_logprobs": self.top_n_tokens,
        }


def continued(
    served: ServedModel, prompts: Sequence[str], chosen: GenerationParameters
) -> list[dict[str, Any]]:
    """What is written for each prompt."""
    model = served.language_model()
    found = model.generate(list(prompts), **chosen.settings())
    texts = [each for each in found if isinstance(each, WrittenText)]
    return [
        {
            "generated_text": _shown(text, chosen),
            **({"details": _details(model.tokenizer, text, chosen)} if chosen.details else {}),
        }
        for text in texts
    ]


def streamed(served: ServedModel, prompt: str, chosen: GenerationParameters) -> Stream:
    """The text token by token; the last event holds the whole of it."""
    model = served.language_model()
    chunks = model.stream(prompt, **chosen.settings())
    return Stream(_events(model, prompt, chunks, chosen))


def _events(
    model: LanguageModel,
    prompt: str,
    chunks: Iterator[StreamChunk],
    chosen: GenerationParameters,
) -> Iterator[dict[str, Any]]:
    tokenizer = model.tokenizer
    for number, chunk in enumerate(chunks, 1):
        # Without details nobody reads more of a token than its text.
        text = chunk.whole or (chunk.so_far() if chosen.details else None)
        token = {"id": 0, "logprob": 0.0, "special": False}
        if text is not None and text.tokens:
            token = _token(tokenizer, text.tokens[-1])
        event: dict[str, Any] = {
            "index": number,
            # What became certain: texts of all tokens are the whole text.
            "token": {**token, "text": chunk.text},
            "generated_text": None,
            "details": None,
        }
        if text is not None and text.tokens and text.tokens[-1].others:
            event["top_tokens"] = _others(tokenizer, text.tokens[-1])
        if chunk.whole is not None:
            event["generated_text"] = _shown(chunk.whole, chosen)
            event["details"] = {
                "finish_reason": _REASONS.get(chunk.whole.finish_reason or "", "length"),
                "generated_tokens": len(chunk.whole.tokens),
                "input_length": len(tokenizer.encode([prompt])[0]),
                "seed": chosen.seed,
            }
        yield event


def _shown(text: WrittenText, chosen: GenerationParameters) -> str:
    return text.prompt + text.text if chosen.return_full_text else text.text


def _details(
    tokenizer: Tokenizer, text: WrittenText, chosen: GenerationParameters
) -> dict[str, Any]:
    details: dict[str, Any] = {
        "finish_reason": _REASONS.get(text.finish_reason or "", "length"),
        "generated_tokens": len(text.tokens),
        "seed": chosen.seed,
        "prefill": [],
        "tokens": [_token(tokenizer, each) for each in text.tokens],
    }
    if chosen.top_n_tokens:
        details["top_tokens"] = [_others(tokenizer, each) for each in text.tokens]
    return details


def _token(tokenizer: Tokenizer, token: Token) -> dict[str, Any]:
    return _entry(tokenizer, token.text, token.log)


def _others(tokenizer: Tokenizer, token: Token) -> list[dict[str, Any]]:
    return [_entry(tokenizer, text, log) for text, log in token.others]


def _entry(tokenizer: Tokenizer, text: str, log: float) -> dict[str, Any]:
    number = tokenizer.id_of(text)
    assert number is not None
    special = number in tokenizer.special_ids
    decoded = text if special else tokenizer.decode([number])
    return {"id": number, "text": decoded, "logprob": log, "special": special}


class WritingParameters(BaseModel):
    """How a summary or a translation is written."""

    model_config = ConfigDict(extra="forbid")

    generate_parameters: dict[str, Any] | None = Field(
        None, description="max_new_tokens, num_beams and length_penalty."
    )
    truncation: str | None = Field(
        None, description="Without effect: whether a text is cut is the model's, and is told."
    )
    clean_up_tokenization_spaces: bool | None = Field(None, description="Without effect.")
    src_lang: str | None = None
    tgt_lang: str | None = None


_WRITING = ("max_new_tokens", "num_beams", "length_penalty")


def composed(
    served: ServedModel, texts: Sequence[str], chosen: WritingParameters
) -> list[dict[str, Any]]:
    """What is written for each text, under the names that summaries and translations have.

    Raises:
        InputError: If a parameter is not known.
    """
    if chosen.src_lang is not None or chosen.tgt_lang is not None:
        raise InputError(
            f"parameters.src_lang is {chosen.src_lang!r}; {served.name} takes no codes of "
            "languages; leave src_lang and tgt_lang out."
        )
    task: Any = served.tasks[WRITE]
    named = chosen.generate_parameters or {}
    if unknown := next((name for name in named if name not in _WRITING), None):
        raise InputError(
            f"parameters.generate_parameters.{unknown} is not known; known: {', '.join(_WRITING)}; "
            "leave it out."
        )
    if named:
        own = {name: getattr(task.writing, name) for name in _WRITING}
        writing = config.read(Writing, {**own, **named}, "parameters.generate_parameters")
        task = replace(task, writing=writing)
    return [
        {**named_as_all(each.text), **({"cut": True} if each.cut else {})}
        for each in served.language_model().predict(list(texts), task)
    ]


def named_as_all(text: str) -> dict[str, str]:
    """A text that was written, under the name of each task that reads it."""
    return {"generated_text": text, "summary_text": text, "translation_text": text}
