"""Chats as one text: a template says how turns are written, and where the next one begins.

The idea: published tokenizers carry a template in the language Jinja (`chat_template`). It is a
program from somebody else, so it runs in a sandbox that can read what it is given and nothing more.
Compat: the settings of the sandbox, the functions a template may call and the tag `generation` are
those of Hugging Face's library.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from clozeworks.errors import InputError, TokenizerError
from clozeworks.text.tokenizer.files import token_name
from clozeworks.text.tokenizer.special import SpecialTokens

Message = Mapping[str, str]
# How often the loops over numbers of a template may run; published ones have none.
TURNS = 100_000
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
        import jinja2

        try:
            written: str = _compiled(self.source).render(
                messages=[dict(message) for message in messages],
                add_generation_prompt=asks,
                tools=None,
                documents=None,
                range=_counted_range(),
                **self.special,
            )
        except jinja2.TemplateSyntaxError as error:
            raise TokenizerError(
                f"chat_template, line {error.lineno}: {error.message}; it must be a Jinja "
                "template; correct tokenizer_config.json."
            ) from error
        except Exception as error:  # Somebody else's program may fail in any way.
            raise InputError(
                f"{source_location}: the chat template does not take this chat "
                f"({str(error) or type(error).__name__}); change the chat's roles and their order, "
                "or the template."
            ) from error
        return written

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


@cache
def _compiled(source: str) -> Any:
    """A template that is ready to write; it is made when it is first needed."""
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """Marks what the assistant says; it is written like everything else."""

        tags = {"generation"}  # noqa: RUF012 (so the library wants it)

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda written: datetime.now().strftime(written)
    return environment.from_string(source)


def _counted_range() -> Callable[..., range]:
    """Numbers to count with, until a chat's loops have run too often: loops stand in loops."""
    left = TURNS

    def count(*bounds: int) -> range:
        nonlocal left
        numbers = range(*bounds)
        # An empty loop counts as well, or one could stand in another for ever.
        left -= len(numbers) + 1
        if left < 0:
            raise OverflowError(f"its loops run more than {TURNS:,} times")
        return numbers

    return count


def _to_json(value: Any, indent: int | None = None, **options: Any) -> str:
    # Compat: Jinja's own filter writes <, > and & as escapes, for web pages.
    return json.dumps(value, ensure_ascii=False, indent=indent, **options)


def _refuse(message: str) -> None:
    from jinja2 import TemplateError

    raise TemplateError(message)
