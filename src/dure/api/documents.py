"""Documents in request bodies: JSON or YAML of the kinds that files have, read by the same readers as files.

Also tells OpenAPI what such a body is, since handlers take the bytes themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

from litestar import Request
from litestar.openapi.spec import Example, OpenAPIMediaType, OpenAPIType, Operation, RequestBody, Schema

from dure.api.backend import Backend
from dure.api.problems import UnsupportedMediaType
from dure.files import Documents, read_json, read_text
from dure.model.errors import InvalidInput
from dure.model.workload import Workload

WHERE = "request body"
MEDIA_TYPES = ("application/json", "application/yaml")
# What people and tools send for YAML besides the registered name; curl sends the last one unasked.
_YAML_TYPES = frozenset(
    {
        "application/yaml",
        "application/x-yaml",
        "text/yaml",
        "text/x-yaml",
        "text/plain",
        "application/x-www-form-urlencoded",
    }
)


# A body of so many bytes is read in well under a millisecond.
SMALL = 8 * 1024


async def read_documents(request: Request[Any, Any, Any], backend: Backend) -> Documents:
    """All documents of the body; `InvalidInput` names line, path and what is allowed."""
    media_type = request.headers.get("content-type", "application/yaml").partition(";")[0].strip().lower()
    if media_type != "application/json" and media_type not in _YAML_TYPES:
        raise UnsupportedMediaType(f"'{media_type[:80]}' is not read here; send {' or '.join(MEDIA_TYPES)}")
    body = await request.body()
    if media_type == "application/json" and len(body) <= SMALL:
        # Handing it to a thread and back would take longer, and what is sound needs no lines and columns.
        with contextlib.suppress(InvalidInput):
            found = read_json(body, WHERE, catalogue=backend.catalogue(), fleet=backend.fleet())
            if not found.warnings:
                return found
    return await asyncio.to_thread(read_text, body, WHERE, catalogue=backend.catalogue(), fleet=backend.fleet())


async def read_workload(request: Request[Any, Any, Any], backend: Backend) -> Workload:
    """Exactly one document of kind Workload."""
    documents = await read_documents(request, backend)
    others = len(documents.fleets) + len(documents.tenants) + len(documents.policies)
    if len(documents.workloads) == 1 and not others:
        return documents.workloads[0]
    raise InvalidInput(
        f"one Workload was expected, found {len(documents.workloads)} and {others} documents of other kinds",
        where=WHERE,
        remedy="Send several documents to /v1/apply.",
    )


def documented(body: RequestBody) -> type[Operation]:
    """An OpenAPI operation with this body."""

    @dataclass
    class DocumentOperation(Operation):
        def __post_init__(self) -> None:
            self.request_body = body

    return DocumentOperation


def _body(description: str, kinds: list[str], example: dict[str, Any]) -> RequestBody:
    schema = Schema(
        type=OpenAPIType.OBJECT,
        required=["apiVersion", "kind", "metadata"],
        properties={
            "apiVersion": Schema(const="dure.dev/v1alpha1"),
            "kind": Schema(type=OpenAPIType.STRING, enum=kinds),
            "metadata": Schema(type=OpenAPIType.OBJECT),
            "spec": Schema(type=OpenAPIType.OBJECT, description="As in the JSON Schema at /v1/schemas/{kind}."),
        },
    )
    content = OpenAPIMediaType(schema=schema, examples={"small": Example(value=example)})
    return RequestBody(content=dict.fromkeys(MEDIA_TYPES, content), description=description, required=True)


_EXAMPLE = {
    "apiVersion": "dure.dev/v1alpha1",
    "kind": "Workload",
    "metadata": {"name": "train-42", "tenant": "vision"},
    "spec": {
        "type": "training",
        "classes": [{"name": "h100-80gb-sxm"}],
        "demand": {"devices": 1},
        "duration": "2h",
    },
}
WORKLOAD_BODY = _body("A document of kind Workload.", ["Workload"], _EXAMPLE)
DOCUMENTS_BODY = _body(
    "Documents of any kind; several as a YAML stream.", ["Fleet", "Workload", "Tenant", "Policy"], _EXAMPLE
)
