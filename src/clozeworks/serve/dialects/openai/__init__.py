"""What clients of OpenAI ask, and those of servers that widened its words.

Each file holds one thing that is asked: its body, its answer, its endpoints.
"""

from clozeworks.serve.dialects.openai.chat import chat_endpoints
from clozeworks.serve.dialects.openai.completions import completions_endpoints
from clozeworks.serve.dialects.openai.embeddings import embeddings_endpoints
from clozeworks.serve.dialects.openai.listing import listing_endpoints
from clozeworks.serve.dialects.openai.scores import scores_endpoints
from clozeworks.serve.dialects.openai.tokens import tokens_endpoints
from clozeworks.serve.endpoint import Endpoint


def openai_endpoints() -> list[Endpoint]:
    """Its endpoints."""
    return [
        *embeddings_endpoints(),
        *completions_endpoints(),
        *chat_endpoints(),
        *listing_endpoints(),
        *scores_endpoints(),
        *tokens_endpoints(),
    ]
