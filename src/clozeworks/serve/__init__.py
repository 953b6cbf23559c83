"""Models over HTTP: one process that answers every task of every model it was given.

`create_app` makes the application that `clozeworks serve` serves, for a program's own server.
"""

from typing import TYPE_CHECKING, Any

from clozeworks.errors import MissingExtra

if TYPE_CHECKING:
    from clozeworks.serve.application import create_app as create_app

__all__ = ["create_app"]


def __getattr__(name: str) -> Any:
    # Clients live in this package, too, and shall not wait for what only servers need.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from clozeworks.serve.application import create_app
    except ModuleNotFoundError as error:
        raise MissingExtra("Serving", str(error.name), "serve") from error
    return create_app
