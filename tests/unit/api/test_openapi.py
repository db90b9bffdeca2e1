"""The OpenAPI page and the server agree, whatever is sent: no crash, no undocumented shape of an answer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import (
    CheckFunction,
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
)

from dure.api.app import create_app
from dure.api.auth import Keys
from dure.api.server import Server, open_socket
from tests.unit.api.clients import TOKEN, Client
from tests.unit.api.small_world import SmallWorld

# `make hostile` tries more, and other ones each time.
EXAMPLES = int(os.environ.get("DURE_HOSTILE", "10"))
CHECKS: list[CheckFunction] = [not_a_server_error, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    server = Server(create_app(SmallWorld(), Keys(TOKEN)), *open_socket(port=0))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def api_schema(running: Server) -> Any:
    headers = {"authorization": f"Bearer {TOKEN}"}
    return schemathesis.openapi.from_url(f"{running.address.url}/schema", headers=headers)


def test_whatever_is_sent_is_answered_as_documented(api_schema: Any, running: Server) -> None:
    headers = {"authorization": f"Bearer {TOKEN}"}
    tried = []
    for found in api_schema.get_all_operations():
        operation = found.ok()

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize="DURE_HOSTILE" not in os.environ,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def send(case: Any) -> None:
            case.call_and_validate(base_url=running.address.url, headers=headers, checks=CHECKS)

        send()
        tried.append(operation.label)
    assert len(tried) > 20


def test_every_noun_of_the_product_has_its_path(client: Client) -> None:
    page = client.get("/schema").json()
    assert page["openapi"].startswith("3.1")
    nouns = ["workloads", "clusters", "pools", "devices", "classes", "tenants", "policies", "decisions", "events"]
    assert {f"/v1/{noun}" for noun in nouns} <= set(page["paths"])
    for item in page["paths"].values():
        for operation in item.values():
            content = operation["responses"]["default"]["content"]
            assert list(content) == ["application/problem+json"]
