"""How OpenAI's clients are told of errors."""

import re
from typing import Any

from clozeworks.serve.endpoint import ClientDialect

_KINDS = {
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}
# Sentences about a field begin with its name, and maybe a place in it: `input[3] is empty`.
_FIELD = re.compile(
    r"([a-z_]+\d*)(?:\[\d+\]|\.\w+| [\d,]+)*(?= (?:is|are|has|holds|cannot|must)\b)"
)
_NO_FIELDS = {"it", "there", "text", "something"}


def _told(status: int, message: str, request_id: str) -> tuple[int, Any]:
    """The status that OpenAI's clients know, and the error in their shape."""
    if status == 422:
        status = 400
    usual = ("server_error" if status >= 500 else "invalid_request_error", None)
    kind, code = _KINDS.get(status, usual)
    field = _FIELD.match(message)
    name = field[1] if field and status == 400 and field[1] not in _NO_FIELDS else None
    if status == 404:
        name = "model"
    return status, {"error": {"message": message, "type": kind, "param": name, "code": code}}


OPENAI = ClientDialect("openai", _told)
