"""What a server holds, as clients of OpenAI and of infinity list it."""

import time
from functools import partial
from typing import Any

from clozeworks.serve.dialects.openai.errors import OPENAI
from clozeworks.serve.dialects.rerankers import INFINITY
from clozeworks.serve.endpoint import Call, Endpoint


def _listed(created: int, about: dict[str, Any], call: Call, body: None) -> Any:
    return {
        "object": "list",
        "data": [
            {
                "id": each.name,
                "object": "model",
                "created": created,
                "abilities": list(each.abilities),
                **about,
            }
            for each in call.models
            if not each.unloadable
        ],
    }


def listing_endpoints() -> list[Endpoint]:
    """The models that can be asked, at OpenAI's path and at that of infinity."""
    listed = partial(_listed, int(time.time()))
    # Compat: infinity's client takes no owner but infinity, and cannot do without `stats`.
    return [
        Endpoint(
            path=path,
            summary="list the models and what each can do",
            answer=partial(listed, about),
            dialect=dialect,
            method="GET",
        )
        for path, dialect, about in (
            ("/v1/models", OPENAI, {"owned_by": "clozeworks"}),
            ("/models", INFINITY, {"backend": "clozeworks", "stats": {}}),
        )
    ]
