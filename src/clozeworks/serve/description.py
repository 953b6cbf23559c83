"""What the server says of itself: OpenAPI, made from its endpoints."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from clozeworks.serve.endpoint import ClientDialect, Endpoint
from clozeworks.serve.replies import NATIVE

_NOT_TAKEN = {
    401: "The key is missing or unknown.",
    404: "There is no such model, or it cannot do this.",
    405: "The path does not take this method.",
    429: "There is too much work; ask again after Retry-After.",
    500: "Something went wrong inside the server.",
    503: "The server is about to end.",
    504: "The answer took too long.",
}
_WRONG_BODY = {
    400: "The body is not JSON.",
    408: "The body did not come in time.",
    413: "The body is too large, or holds too much.",
    422: "Something in the body cannot be used.",
}
_ONLY_PAGE = {403: "This is for the page of this server alone.", 409: "It cannot be done now."}
_KINDS = {str: "string", int: "integer", bool: "boolean", list: "array"}
# What the server says of itself, by path: the media type, and what else than 200 it may be.
_ABOUT = {
    "/health": ("say whether models can compute", "application/json", {503: "They cannot."}),
    "/ready": ("say whether requests are taken", "application/json", {503: "Not now."}),
    "/metrics": ("say what was measured, for Prometheus", "text/plain", {}),
    "/openapi.json": ("say what can be asked", "application/json", {}),
    "/": ("show the page for people", "text/html", {}),
}


def described(
    endpoints: Sequence[Endpoint], models: Sequence[str] = (), *, needs_key: bool = False
) -> dict[str, Any]:
    """The OpenAPI document.

    Args:
        endpoints: What can be asked.
        models: The names of models.
        needs_key: Whether a key must be sent.
    """
    schemas: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        operation = paths.setdefault(endpoint.path, {}).setdefault(
            endpoint.method.lower(),
            {
                "operationId": f"{endpoint.method.lower()} {endpoint.path}",
                "summary": endpoint.summary,
                "responses": {"200": {"description": "The answer.", "content": {}}},
            },
        )
        _add_responses(operation["responses"], endpoint)
        if endpoint.body is None:
            continue
        if endpoint.method == "GET":
            operation["parameters"] = _parameters(endpoint.body)
            continue
        name = endpoint.body.__name__
        schema = endpoint.body.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(schema.pop("$defs", {}))
        schemas[name] = _naming(schema, models)
        content = operation.setdefault(
            "requestBody",
            {"required": True, "content": {"application/json": {"schema": {"anyOf": []}}}},
        )["content"]["application/json"]
        reference = {"$ref": f"#/components/schemas/{name}"}
        if reference not in content["schema"]["anyOf"]:
            content["schema"]["anyOf"].append(reference)
        for title, value in endpoint.examples.items():
            content.setdefault("examples", {})[f"{endpoint.dialect.name}: {title}"] = {
                "value": value
            }
    for path, methods in _about().items():
        paths.setdefault(path, {}).update(methods)
    components: dict[str, Any] = {"schemas": schemas}
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Clozeworks", "version": "1"},
        "paths": paths,
        "components": components,
    }
    if needs_key:
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"key": []}]
    return document


def _parameters(query: type[BaseModel]) -> list[dict[str, Any]]:
    """What the query of a path may hold."""
    schema = query.model_json_schema()
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": each}
        for name, each in schema.get("properties", {}).items()
    ]


def _add_responses(responses: dict[str, Any], endpoint: Endpoint) -> None:
    """Adds what an endpoint answers; several that share a path answer in several shapes."""
    content = responses["200"]["content"]
    content.setdefault("application/json", {})
    if endpoint.body is not None and "stream" in endpoint.body.model_fields:
        content.setdefault("text/event-stream", {})
    refusals = {**_NOT_TAKEN, **(_WRONG_BODY if endpoint.body is not None else {})}
    refusals |= _ONLY_PAGE if endpoint.changes else {}
    for own, text in refusals.items():
        status, schema = _refusal(endpoint.dialect, own)
        response = responses.setdefault(
            str(status),
            {"description": text, "content": {"application/json": {"schema": {"anyOf": []}}}},
        )
        if text not in response["description"]:
            response["description"] += f" {text}"
        if own in (429, 503):
            response["headers"] = {"Retry-After": {"schema": {"type": "integer"}}}
        shapes = response["content"]["application/json"]["schema"]["anyOf"]
        if schema not in shapes:
            shapes.append(schema)


def _refusal(dialect: ClientDialect, own: int) -> tuple[int, dict[str, Any]]:
    """The status and the shape of an error in a dialect, as it makes them itself."""
    status, content = dialect.error(own, "A sentence.", "id")
    return status, _shape(content)


def _shape(content: Any) -> dict[str, Any]:
    """A schema that what is like an example fulfils."""
    if isinstance(content, Mapping):
        properties = {name: _shape(each) for name, each in content.items()}
        return {"type": "object", "required": [*properties], "properties": properties}
    kind = _KINDS.get(type(content))
    return {} if kind is None else {"type": kind}


def _naming(schema: dict[str, Any], models: Sequence[str]) -> dict[str, Any]:
    """A schema whose models are those that are served."""
    named = schema.get("properties", {}).get("model")
    if named is not None and models:
        named["anyOf"] = [{"enum": [*models]}, {"type": "null"}]
        named["examples"] = [models[0]]
    return schema


def _about() -> dict[str, Any]:
    """What the server says of itself, to whoever asks."""
    shape = _refusal(NATIVE, 405)[1]
    wrong = {"application/json": {"schema": shape}}
    return {
        path: {
            "get": {
                "operationId": f"get {path}",
                "summary": summary,
                "security": [],
                "responses": {
                    "200": {"description": "The answer.", "content": {kind: {}}},
                    **{
                        str(status): {"description": text, "content": {kind: {}}}
                        for status, text in others.items()
                    },
                    "405": {"description": _NOT_TAKEN[405], "content": wrong},
                },
            }
        }
        for path, (summary, kind, others) in _ABOUT.items()
    }
