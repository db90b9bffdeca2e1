"""Every endpoint of the REST API and of the gateway, out of their OpenAPI descriptions and the table of roles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from litestar import Litestar

from dure.api.app import create_app
from dure.api.auth import Keys
from dure.api.rules import RULES, Reach
from dure.gateway.app import create_app as create_gateway
from dure.web.pages import pages
from handbook.figures import world
from handbook.text import cell, table

HEAD = """\
# Endpoints

What the whole API has in common (tokens, lists, documents, errors, live events) stands in [the REST API](../api.md).
The OpenAPI 3.1 description is at `/schema` of a running plane and gateway.

Reach: `open` anybody, `agent` agents with their credential, `shared` everybody who is known, `own` shows and changes
only what belongs to the caller's tenants, `fleet` takes the role for the whole fleet.

"""
METHODS = ("get", "post", "put", "patch", "delete")


class Endpoint(NamedTuple):
    """One operation as the description has it."""

    method: str
    path: str
    operation: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.method.upper()} {self.path}"


def page() -> str:
    parts = [HEAD, "## The plane\n", _roles(), "### Parameters and answers\n"]
    parts += [_described(each) for each in plane()]
    parts += ["## The gateway\n", *(_described(each) for each in gateway())]
    return "\n".join(parts)


def plane() -> list[Endpoint]:
    return list(_endpoints(create_app(world().desk, Keys("documentation"), pages=pages()).litestar))


def gateway() -> list[Endpoint]:
    unused: Any = None
    return list(_endpoints(create_gateway(unused, unused)))


def _endpoints(app: Litestar) -> Iterator[Endpoint]:
    for path, item in sorted(app.openapi_schema.to_schema()["paths"].items()):
        for method in METHODS:
            if method in item:
                yield Endpoint(method, path, item[method])


def _roles() -> str:
    rows = [
        (f"`{name}`", rule.reach.value, "" if rule.reach in (Reach.OPEN, Reach.AGENT) else rule.role.value)
        for name, rule in sorted(RULES.items(), key=lambda one: one[0].split()[1])
    ]
    return table(("endpoint", "reach", "least role"), rows)


def _described(each: Endpoint) -> str:
    told = each.operation.get("description") or each.operation.get("summary") or ""
    parts = [f"#### {each.name}\n", f"{told.strip()}\n"]
    rows = [
        (f"`{one['name']}`", one["in"], _type(one.get("schema", {})), cell(one.get("description", "")))
        for one in each.operation.get("parameters", ())
    ]
    if rows:
        parts.append(table(("parameter", "in", "type", "meaning"), rows))
    body = each.operation.get("requestBody", {}).get("content", {})
    if body:
        parts.append("Body: " + ", ".join(f"`{kind}`" for kind in body) + "\n")
    answers = [
        f"{status} {answer.get('description', '')}".strip()
        for status, answer in sorted(each.operation.get("responses", {}).items())
        if status != "default"
    ]
    parts.append("Answers: " + "; ".join(answers) + "; else problem+json.\n")
    return "\n".join(parts)


def _type(schema: dict[str, Any]) -> str:
    if "oneOf" in schema or "anyOf" in schema:
        return " or ".join(_type(each) for each in schema.get("oneOf", schema.get("anyOf", ())))
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[1]
    found = schema.get("type", "anything")
    return " or ".join(found) if isinstance(found, list) else str(found)
