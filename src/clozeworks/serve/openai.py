"""What clients of OpenAI ask."""

from clozeworks.serve.endpoint import Endpoint


def openai_endpoints() -> list[Endpoint]:
    """Its endpoints."""
    return []
