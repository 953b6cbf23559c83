"""The part of a tokenizer that knows how chats are written."""

from typing import Any, Self

from tokenizers import Tokenizer as Backend

from clozeworks.text import files
from clozeworks.text.chat import PLAIN_TEMPLATE, ChatTemplate
from clozeworks.text.style import SpecialTokens


class Chatting:
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
        return files.chat_template(self._config) is not None

    @property
    def chat(self) -> ChatTemplate:
        """How chats are written; a plain way if the tokenizer does not say it."""
        source = files.chat_template(self._config)
        return ChatTemplate(
            PLAIN_TEMPLATE if source is None else source,
            files.template_tokens(self._config, self.special),
        )

    def with_chat_template(self, source: str) -> Self:
        """The same tokenizer, saying how chats are written."""
        config = {**self._config, "chat_template": source}
        return type(self)(self._backend, special=self.special, config=config)
