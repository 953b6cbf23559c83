"""Chats as one text: a template says how turns are written, and where the next one begins.

The idea: published tokenizers carry a template in the language Jinja (`chat_template`). It is a
program from somebody else, so it runs in a sandbox that can read what it is given and nothing more,
and in a process of its own with limits on memory, time and output (`rendering.py`).
Compat: the settings of the sandbox, the functions a template may call and the tag `generation` are
those of Hugging Face's library.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clozeworks.errors import InputError, TokenizerError
from clozeworks.text.tokenizer.files import token_name
from clozeworks.text.tokenizer.render_process import RENDERER, TemplateFailure, TemplateSyntax
from clozeworks.text.tokenizer.special import SpecialTokens

Message = Mapping[str, str]
ASSISTANT = "assistant"

# What is used where a tokenizer has none: a line says who speaks, the assistant ends with the end.
PLAIN_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] + ':\n' + message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant:\n' }}{% endif %}"
)


@dataclass(frozen=True)
class ChatSegment:
    """A stretch of a chat's text."""

    text: str
    by_assistant: bool
    """Whether the assistant says it."""


@dataclass(frozen=True)
class ChatTemplate:
    """Writes chats as texts."""

    source: str
    """The template."""
    special: Mapping[str, str]
    """Names of special tokens as templates know them: `bos_token`, `eos_token`."""

    def render(
        self, messages: Sequence[Message], *, asks: bool = False, source_location: str = "the chat"
    ) -> str:
        """A chat as one text.

        Args:
            messages: Turns: role and content.
            asks: Whether the beginning of the assistant's next turn is added.
            source_location: Where the chat came from, for messages.

        Raises:
            TokenizerError: If the template cannot be read.
            InputError: If the template does not take such a chat.
        """
        variables = {
            "messages": [dict(message) for message in messages],
            "add_generation_prompt": asks,
            "tools": None,
            "documents": None,
            **self.special,
        }
        try:
            return RENDERER.render(self.source, variables)
        except TemplateSyntax as error:
            raise TokenizerError(
                f"chat_template, line {error.line}: {error}; it must be a Jinja template; correct "
                "tokenizer_config.json."
            ) from error
        except TemplateFailure as error:
            raise InputError(
                f"{source_location}: the chat template does not take this chat ({error}); change "
                "the chat's roles and their order, or the template."
            ) from error

    def pieces(
        self, messages: Sequence[Message], source_location: str = "the chat"
    ) -> list[ChatSegment]:
        """A chat in stretches: what the assistant says, with the end of its turn, and the rest.

        What is read before a turn of the assistant is exactly what it would be asked with.

        Raises:
            InputError: If the template writes earlier turns in another way once later ones follow.
        """
        segments: list[ChatSegment] = []
        written = ""
        for number, message in enumerate(messages):
            if message["role"] != ASSISTANT:
                continue
            before = self.render(messages[:number], asks=True, source_location=source_location)
            whole = self.render(messages[: number + 1], source_location=source_location)
            if not before.startswith(written) or not whole.startswith(before):
                raise InputError(
                    f"{source_location}: the chat template writes turn {number + 1} in another way "
                    "once more follows, so what the assistant says cannot be told from the rest; "
                    "give chats of one question and one answer, or another template."
                )
            segments.append(ChatSegment(before[len(written) :], False))
            segments.append(ChatSegment(whole[len(before) :], True))
            written = whole
        return segments


def template_of(config: Mapping[str, Any]) -> str | None:
    """The template for chats; of several the one called default."""
    stated = config.get("chat_template")
    if isinstance(stated, list):
        named = [each for each in stated if isinstance(each, dict)]
        stated = {each.get("name"): each.get("template") for each in named}.get("default")
    return stated if isinstance(stated, str) else None


def tokens_of(config: Mapping[str, Any], special: SpecialTokens) -> dict[str, str]:
    """The special tokens by the names that templates use."""
    usual = {
        "bos_token": special.first,
        "eos_token": special.last,
        "pad_token": special.pad,
        "unk_token": special.unknown,
    }
    stated = {key: token_name(value) for key, value in config.items() if key.endswith("_token")}
    return {key: name for key, name in {**usual, **stated}.items() if name is not None}
