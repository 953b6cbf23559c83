"""The part of a tokenizer that knows how chats are written."""

from collections.abc import Mapping
from typing import Any, Self

from tokenizers import Tokenizer as Backend

from clozeworks.text.tokenizer import files
from clozeworks.text.tokenizer.chat import PLAIN_TEMPLATE, ChatTemplate
from clozeworks.text.tokenizer.special import SpecialTokens


class ChatMethods:
    """What a tokenizer says of chats."""

    _backend: Backend
    _config: dict[str, Any]
    special: SpecialTokens

    def __init__(
        self, backend: Backend, *, special: SpecialTokens | None, config: dict[str, Any] | None
    ) -> None:
        raise NotImplementedError

    @property
    def has_chat_template(self) -> bool:
        """Whether it says how chats are written."""
        return template_of(self._config) is not None

    @property
    def chat(self) -> ChatTemplate:
        """How chats are written; a plain way if the tokenizer does not say it."""
        source = template_of(self._config)
        return ChatTemplate(
            PLAIN_TEMPLATE if source is None else source,
            _tokens(self._config, self.special),
        )

    def with_chat_template(self, source: str) -> Self:
        """The same tokenizer, saying how chats are written."""
        config = {**self._config, "chat_template": source}
        return type(self)(self._backend, special=self.special, config=config)


def template_of(config: Mapping[str, Any]) -> str | None:
    """The template for chats; of several the one called default."""
    stated = config.get("chat_template")
    if isinstance(stated, list):
        named = {
            each.get("name"): each.get("template") for each in stated if isinstance(each, dict)
        }
        stated = named.get("default")
    return stated if isinstance(stated, str) else None


def _tokens(config: Mapping[str, Any], special: SpecialTokens) -> dict[str, str]:
    """The special tokens by the names that templates use."""
    usual = {
        "bos_token": special.first,
        "eos_token": special.last,
        "pad_token": special.pad,
        "unk_token": special.unknown,
    }
    stated = {
        key: files.token_name(value) for key, value in config.items() if key.endswith("_token")
    }
    return {key: name for key, name in {**usual, **stated}.items() if name is not None}
