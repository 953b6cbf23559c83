"""What the server says of itself: OpenAPI, made from its endpoints."""

from collections.abc import Sequence
from typing import Any

from clozeworks.serve.endpoint import Endpoint

_REFUSALS = {
    "400": "The body is not JSON.",
    "401": "The key is missing or unknown.",
    "404": "There is no such model, or it cannot do this.",
    "408": "The body did not come in time.",
    "413": "The body is too large, or holds too much.",
    "422": "Something in the body cannot be used.",
    "429": "There is too much work; ask again after Retry-After.",
    "500": "Something went wrong inside the server.",
    "503": "The server is about to end.",
    "504": "The answer took too long.",
}


def described(endpoints: Sequence[Endpoint], *, needs_key: bool) -> dict[str, Any]:
    """The OpenAPI document."""
    schemas: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        operation = paths.setdefault(endpoint.path, {}).setdefault(
            endpoint.method.lower(),
            {
                "summary": endpoint.summary,
                "responses": {
                    "200": {
                        "description": "The answer.",
                        "content": {"application/json": {}, "text/event-stream": {}},
                    },
                    **{
                        status: {
                            "description": text,
                            "content": {"application/json": {}},
                        }
                        for status, text in _REFUSALS.items()
                    },
                },
            },
        )
        if endpoint.body is None:
            continue
        name = endpoint.body.__name__
        schema = endpoint.body.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(schema.pop("$defs", {}))
        schemas[name] = schema
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
