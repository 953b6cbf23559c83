"""What a server holds, as OpenAI's clients list it."""

import time
from functools import partial
from typing import Any

from clozeworks.serve.dialects.openai.errors import OPENAI
from clozeworks.serve.endpoint import Call, Endpoint


def _listed(created: int, call: Call, body: None) -> Any:
    return {
        "object": "list",
        "data": [
            {
                "id": each.name,
                "object": "model",
                "created": created,
                "owned_by": "clozeworks",
                "abilities": list(each.abilities),
            }
            for each in call.models
            if not each.unloadable
        ],
    }


def listing_endpoints() -> list[Endpoint]:
    """The models that can be asked."""
    answer = partial(_listed, int(time.time()))
    return [
        Endpoint(
            path=path,
            summary="list the models and what each can do",
            answer=answer,
            dialect=OPENAI,
            method="GET",
        )
        for path in ("/v1/models", "/models")
    ]
