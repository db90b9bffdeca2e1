"""What the OpenAPI page says beyond the handlers: title, token, and the one shape of every error."""

from __future__ import annotations

from litestar import Litestar, MediaType
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import (
    Components,
    OpenAPIMediaType,
    OpenAPIResponse,
    OpenAPIType,
    Operation,
    Reference,
    Schema,
    SecurityScheme,
)

import dure
from dure.api import problems

_METHODS = ("get", "post", "put", "patch", "delete")
_TEXTS = {
    "type": "A name for this kind of problem.",
    "title": "The kind in words.",
    "detail": "What was wrong.",
    "where": "The line of a document or the record it was about.",
    "reason": "One of Dure's stable reason codes.",
    "remedy": "What to do about it.",
}


def config() -> OpenAPIConfig:
    return OpenAPIConfig(
        title="Dure",
        version=dure.__version__,
        description="Pools the accelerators of many clusters. Errors are problem+json with a reason and a remedy.",
        path="/schema",
        render_plugins=[JsonRenderPlugin(path=["/", "/openapi.json"], media_type=MediaType.JSON)],
        use_handler_docstrings=True,
        security=[{"token": []}],
        components=Components(
            security_schemes={"token": SecurityScheme(type="http", scheme="bearer")}, schemas={"Problem": _problem()}
        ),
    )


def document_problems(app: Litestar) -> None:
    """Every operation may answer a problem, whatever Litestar believes of its errors; records also 'not modified'."""
    problem = OpenAPIMediaType(schema=Reference(ref="#/components/schemas/Problem"))
    answer = OpenAPIResponse(description="A problem.", content={problems.MEDIA_TYPE: problem})
    for item in (app.openapi_schema.paths or {}).values():
        for method in _METHODS:
            operation: Operation | None = getattr(item, method)
            if operation is None:
                continue
            kept = {status: known for status, known in (operation.responses or {}).items() if status < "400"}
            if method == "get":
                kept["304"] = OpenAPIResponse(description="The caller has this version already.")
            operation.responses = {**kept, "default": answer}


def _problem() -> Schema:
    texts = {name: Schema(type=OpenAPIType.STRING, description=text) for name, text in _TEXTS.items()}
    detail = {name: Schema(type=OpenAPIType.STRING) for name in ("where", "message", "path", "remedy")}
    errors = Schema(type=OpenAPIType.ARRAY, items=Schema(type=OpenAPIType.OBJECT, properties={**detail}))
    return Schema(
        type=OpenAPIType.OBJECT,
        required=["type", "title", "status"],
        properties={**texts, "status": Schema(type=OpenAPIType.INTEGER), "errors": errors},
    )
