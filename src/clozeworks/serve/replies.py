"""From errors to statuses, and the shapes in which dialects tell them."""

from collections.abc import Mapping
from typing import Any

from clozeworks.errors import ClozeworksError
from clozeworks.inference.loop import Cancelled
from clozeworks.serve.endpoint import ClientDialect
from clozeworks.serve.models import UnknownModel
from clozeworks.serve.work import DeadlinePassed, Overloaded, ServerStopped, TooMuch
from clozeworks.text.tokenizer.tokenizer import SHORTEN


class RefusedRequest(ClozeworksError):  # noqa: N818 (the name is the sentence)
    """A request that is refused before anything is computed, with the status it gets."""

    def __init__(
        self, status: int, sentence: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(sentence)
        self.status, self.headers = status, headers or {}


_STATUSES: tuple[tuple[type[BaseException], int], ...] = (
    (UnknownModel, 404),
    (TooMuch, 413),
    (Overloaded, 429),
    (DeadlinePassed, 504),
    (ServerStopped, 503),
    (Cancelled, 499),
    (ClozeworksError, 422),
)
_SHORTEN = 'shorten it, or have it cut with "truncate": true'
INTERNAL = "something went wrong inside the server; its log says what, under the id {id}."


def status_of(error: BaseException) -> int:
    """The HTTP status of an error."""
    if isinstance(error, RefusedRequest):
        return error.status
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def sentence_of(error: BaseException, request_id: str) -> str:
    """What a client is told of it; what is nobody's mistake stays in the log."""
    if not isinstance(error, ClozeworksError):
        return INTERNAL.format(id=request_id)
    return str(error).replace(SHORTEN, _SHORTEN)


def _native_error(status: int, message: str, request_id: str) -> tuple[int, Any]:
    return status, {"error": {"message": message, "status": status, "request_id": request_id}}


NATIVE = ClientDialect("clozeworks", _native_error)
