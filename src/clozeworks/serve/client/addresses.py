"""Addresses of servers, as a person writes them where a model is meant.

`http://HOST:PORT` names a server, `http://HOST:PORT#NAME` one of its models. The name stands after
`#`, since it may hold slashes, and since a path may stand before it where several servers share a
host.
"""

from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from clozeworks.errors import SET, SettingError

_PORTS = {"http": 80, "https": 443}
_RULE = "it must be the address of a server: http://127.0.0.1:8000, with #NAME for one model"


@dataclass(frozen=True)
class ServerAddress:
    """Where a server is asked."""

    scheme: str
    host: str
    port: int
    path: str
    """What stands before the path of every request; empty as a rule."""
    model: str | None = None
    """The model that the address names."""

    @classmethod
    def read(cls, text: str) -> "ServerAddress":
        """An address as a person writes it; the model's name stands after `#`.

        Raises:
            SettingError: If it is none.
        """
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError as error:
            raise SettingError("The address", text, _RULE) from error
        if parts.scheme not in _PORTS or not parts.hostname or parts.query:
            raise SettingError("The address", text, _RULE)
        if parts.username is not None or parts.password is not None:
            rule = "a key does not belong into an address, which is shown"
            raise SettingError("The address", SET, rule, "give it as key")
        path = quote(parts.path.rstrip("/"), safe="/%")
        named = unquote(parts.fragment) or None
        return cls(parts.scheme, parts.hostname, port or _PORTS[parts.scheme], path, named)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


def is_address(text: object) -> bool:
    """Whether a text names a server, rather than a folder or a model of the hub."""
    return isinstance(text, str) and text.lower().startswith(("http://", "https://"))
