"""What can be asked of a server, and in which words: an endpoint is a path, a body and an answer.

Several dialects may share a path (`/rerank` is spoken by three kinds of clients); the fields of the
body decide whose endpoint answers, and errors come back in its shape.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from clozeworks.serve.work import TooMuch, Work

if TYPE_CHECKING:
    from clozeworks.serve.models import ServedModel, ServedModels


@dataclass(frozen=True)
class ClientDialect:
    """Whose words an endpoint speaks."""

    name: str
    error: Callable[[int, str, str], tuple[int, Any]]
    """From a status, a sentence and the id of the request to a status and a body."""


@dataclass(frozen=True)
class Stream:
    """An answer that comes piece by piece, as server-sent events."""

    events: Iterator[Any]
    """What JSON can hold, or a text that is sent as it is."""
    end: str | None = None
    """What is sent when all has come."""


@dataclass(frozen=True)
class RawAnswer:
    """An answer that is no JSON."""

    content: bytes
    media_type: str
    headers: Mapping[str, str] = field(default_factory=dict)
    """What stands in place of the usual headers."""


@dataclass(frozen=True)
class Call:
    """One request, as an endpoint sees it."""

    models: "ServedModels"
    work: Work
    id: str
    headers: dict[str, str] = field(default_factory=dict)
    """Of the response."""
    limits: Mapping[str, int] = field(default_factory=dict)
    is_ending: Callable[[], bool] = lambda: False
    """Whether the server is about to end, so that a stream without an end ends now."""

    measured: Callable[[], Mapping[str, Any]] = dict
    """What the server measures of itself, as plain data."""

    def model(self, name: str | None, ability: str | None = None) -> "ServedModel":
        """The model that is meant: the one of this name, or the only one that can do something."""
        return self.models.find(name, ability)

    def check_count(self, count: int, what: str) -> None:
        """Checks how much a request asks for where its fields multiply.

        Args:
            count: How many texts are read or written.
            what: What they are, in the plural.

        Raises:
            TooMuch: If there are more than are taken at a time.
        """
        most = self.limits.get("inputs")
        if most is not None and count > most:
            raise TooMuch(
                f"there are {count:,} {what}, at most {most:,} are taken; send less at a time."
            )

    def check_tokens(self, count: int, what: str) -> None:
        """Checks how many tokens an answer describes one by one.

        Args:
            count: How many tokens there are.
            what: What is said of them, as the beginning of a sentence.

        Raises:
            TooMuch: If there are more than are taken in hand.
        """
        most = self.limits.get("tokens")
        if most is not None and count > most:
            raise TooMuch(
                f"{what} of {count:,} tokens are asked for, at most those of {most:,} are given; "
                "send less at a time."
            )

    def check_characters(self, count: int, what: str) -> None:
        """Checks how much a request has read where something in it is read several times.

        Nobody can have more read than fits into a request.

        Args:
            count: How many characters are read, each as often as it is read.
            what: What is read several times, as the beginning of a sentence.

        Raises:
            TooMuch: If there are more than a request may hold.
        """
        most = self.limits.get("body_bytes")
        if most is not None and count > most:
            raise TooMuch(
                f"{what}, which makes {count:,} characters; at most {most:,} are taken; send less "
                "at a time."
            )


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """One way to ask for one thing."""

    path: str
    summary: str
    answer: Callable[[Call, Any], Any]
    """From a call and its body to what JSON can hold, or to a `Stream`. It runs in a thread of its
    own, where models are run by the scheduler."""
    dialect: ClientDialect
    body: type[BaseModel] | None = None
    """What the request holds, for GET in its query; None for one that holds nothing."""
    fields: frozenset[str] = frozenset()
    """Top-level fields, one of which a body has if it is meant for this endpoint."""
    method: str = "POST"
    examples: Mapping[str, Any] = field(default_factory=dict)
    """Bodies that work, by name, for the description."""
    open: bool = False
    """Whether it answers without a key."""
    changes: bool = False
    """Whether it does something on this machine: it answers the page of this server alone, in a
    browser on this machine."""
    counted: bool = True
    """Whether it is measured and logged; who only watches the server changes nothing that way."""

    def fits(self, body: Any) -> bool:
        """Whether a body is meant for it."""
        return not self.fields or (isinstance(body, Mapping) and bool(self.fields & body.keys()))
