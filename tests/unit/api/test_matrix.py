"""Every endpoint x every role x own and other tenant, generated from the API's own description: nothing leaks.

A new endpoint fails here until it has a line in `dure.api.rules`, and one with a body until it has one in `BODIES`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec
import pytest
from litestar.routes import HTTPRoute
from litestar.testing import TestClient

from dure.api.rules import RULES, Reach, Rule
from dure.api.stream import Stream
from dure.model.event import Event
from dure.model.tenant import Role
from dure.model.who import EVERY, Who
from tests.unit.api.clients import TOKEN, Client
from tests.unit.api.two_tenants import OURS, THEIRS, TwoTenants

METHODS = ("get", "post", "put", "patch", "delete")
ORDER = tuple(Role)
# A name that nobody has, as long as the other tenant's so that only knowledge can tell them apart.
NOBODY = "nope"


def document(tenant: str, name: str = "") -> dict[str, Any]:
    return {
        "apiVersion": "dure.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": name or f"{tenant}-new", "tenant": tenant},
        "spec": {"type": "batch", "classes": [{"name": "big"}], "demand": {"devices": 1}, "duration": "1h"},
    }


BODIES: dict[str, Callable[[str], Any]] = {
    "POST /v1/workloads": document,
    "POST /v1/plan": document,
    "POST /v1/apply": document,
    "POST /v1/diff": document,
    "POST /v1/tokens": lambda tenant: {"name": f"{tenant}-made", "role": "viewer", "tenant": tenant},
    "POST /v1/clusters/{name}/certificates": lambda _: {"request": "not one"},
    "POST /v1/agents/{name}/join": lambda _: {"digest": "0" * 64},
    "PUT /v1/share/policy": lambda _: {"policy": "auto"},
    "POST /v1/share/feedback": lambda tenant: {"tenant": f"{tenant}-chat", "word": "faster"},
}
# What a path's parameter stands for, by the noun before it.
NAMES: dict[str, Callable[[str], str]] = {
    "workloads": lambda tenant: f"{tenant}-train",
    "tenants": lambda tenant: tenant,
    "tokens": lambda tenant: f"{tenant}-ci",
    "clusters": lambda _: "test",
    "devices": lambda _: "none",
    "agents": lambda _: "test",
    "classes": lambda _: "big",
    "policies": lambda _: "steady",
    "shadow": lambda _: "regret",
    "series": lambda _: "dure_fleet_used_ratio",
    "schemas": lambda _: "workload",
    "forecast": lambda _: "cost",
    "static": lambda _: "main.js",
}
QUERIES: dict[str, Callable[[str], str]] = {
    "tenant": lambda tenant: tenant,
    "workload": lambda tenant: f"{tenant}-train",
    "at_s": lambda _: "1000",
}


class Endpoint(NamedTuple):
    key: str
    method: str
    template: str
    queries: tuple[str, ...]
    has_body: bool

    @property
    def rule(self) -> Rule:
        return RULES[self.key]

    def path(self, tenant: str) -> str:
        parts = self.template.split("/")
        nouns = ["", *parts[:-1]]
        filled = [
            NAMES[noun](tenant) if part.startswith("{") else part for noun, part in zip(nouns, parts, strict=True)
        ]
        asked = [f"{name}={QUERIES[name](tenant)}" for name in self.queries if name in QUERIES]
        return "/".join(filled) + (f"?{'&'.join(asked)}" if asked else "")

    def send(self, client: Client, tenant: str) -> Any:
        body = BODIES[self.key](tenant) if self.key in BODIES else None
        return client.request(self.method, self.path(tenant), json=body)


@pytest.fixture(scope="module")
def world() -> TwoTenants:
    return TwoTenants()


@pytest.fixture(scope="module")
def client(world: TwoTenants) -> Iterator[Client]:
    asgi: Any = world.app.asgi
    with TestClient(asgi, base_url="http://127.0.0.1", raise_server_exceptions=False) as found:
        yield found


def described(world: TwoTenants) -> list[Endpoint]:
    page = world.app.litestar.openapi_schema.to_schema()
    return [
        Endpoint(
            f"{method.upper()} {path}",
            method.upper(),
            path,
            tuple(one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"),
            "requestBody" in operation,
        )
        for path, item in page["paths"].items()
        for method, operation in item.items()
        if method in METHODS
    ]


def become(client: Client, secret: str | None) -> Client:
    client.cookies.clear()
    client.headers.pop("authorization", None)
    if secret is not None:
        client.headers["authorization"] = f"Bearer {secret}"
    return client


def test_every_endpoint_has_a_rule_and_every_rule_an_endpoint(world: TwoTenants) -> None:
    served = {
        f"{method} {route.path_format}"
        for route in world.app.litestar.routes
        if isinstance(route, HTTPRoute)
        for method in route.methods
        if method != "OPTIONS"
    }
    assert {endpoint.key for endpoint in described(world)} <= served
    assert served - RULES.keys() == set(), "write a line for these in dure.api.rules"
    assert RULES.keys() - served == set(), "these are gone; take their lines out of dure.api.rules"


def test_every_endpoint_with_a_body_is_sent_one(world: TwoTenants) -> None:
    wanting = {endpoint.key for endpoint in described(world) if endpoint.has_body}
    assert wanting - BODIES.keys() == set(), "say in BODIES what to send"


def test_strangers_reach_only_what_is_open(world: TwoTenants, client: Client) -> None:
    for endpoint in described(world):
        status = endpoint.send(become(client, None), OURS).status_code
        assert (status != 401) == (endpoint.rule.reach is Reach.OPEN), endpoint.key


@pytest.mark.parametrize("tenant", [OURS, EVERY])
@pytest.mark.parametrize("role", list(Role))
def test_a_role_reaches_what_its_rules_say_and_nothing_else(
    world: TwoTenants, client: Client, role: Role, tenant: str
) -> None:
    become(client, world.secrets[role, tenant])
    for endpoint in described(world):
        reach, needed = endpoint.rule
        if reach is Reach.AGENT:
            assert endpoint.send(client, OURS).status_code == 403, endpoint.key
            continue
        allowed = ORDER.index(role) >= ORDER.index(needed) and (reach is not Reach.FLEET or tenant == EVERY)
        status = endpoint.send(client, OURS).status_code
        assert (status != 403) == (allowed or reach is Reach.OPEN), f"{endpoint.key} answered {status}"
        assert status < 500, endpoint.key


@pytest.mark.parametrize("role", list(Role))
def test_a_tenant_learns_nothing_of_another(world: TwoTenants, client: Client, role: Role) -> None:
    """Lists do not hold it; and asked for by name it is answered in the very words for what does not exist."""
    before = world.theirs()
    become(client, world.secrets[role, OURS])
    for endpoint in described(world):
        if endpoint.rule.reach is Reach.AGENT:
            continue
        own = endpoint.send(client, OURS)
        assert THEIRS not in own.text, f"{endpoint.key} tells of {THEIRS}: {own.text[:400]}"
        other, none = endpoint.send(client, THEIRS), endpoint.send(client, NOBODY)
        if other.status_code != none.status_code or other.text.replace(THEIRS, NOBODY) != none.text:
            # What changes with time alone is no knowledge: ask about nobody again.
            again = endpoint.send(client, NOBODY)
            assert other.status_code == again.status_code, endpoint.key
            assert _still(other.text.replace(THEIRS, NOBODY)) == _still(again.text), endpoint.key
    assert world.theirs() == before


def test_who_stands_above_tenants_sees_them_all(world: TwoTenants, client: Client) -> None:
    become(client, world.secrets[Role.VIEWER, EVERY])
    for path in ("/v1/workloads", "/v1/devices", "/v1/tenants", "/v1/decisions?limit=5000", "/v1/events?limit=5000"):
        text = client.get(path).text
        assert OURS in text, path
        assert THEIRS in text, path


def test_a_tenant_sees_its_own(world: TwoTenants, client: Client) -> None:
    become(client, world.secrets[Role.VIEWER, OURS])
    for path in ("/v1/workloads", "/v1/devices", "/v1/tenants", "/v1/decisions?limit=5000", "/v1/events?limit=5000"):
        assert OURS in client.get(path).text, path
    status = client.get("/v1/status").json()
    running = [one for one in world.store.list_workloads(tenant=OURS) if one.status.phase.value == "running"]
    assert status["totals"].get("running", 0) == len(running)


def test_a_taken_name_says_nothing_of_who_has_it(world: TwoTenants, client: Client) -> None:
    become(client, world.secrets[Role.SUBMITTER, OURS])
    answer = client.post("/v1/workloads", json=document(OURS, f"{THEIRS}-train"))
    assert answer.status_code == 409
    assert "exists" not in answer.text
    assert "cancel" not in answer.text
    diff = client.post("/v1/diff", json=document(OURS, f"{THEIRS}-train")).json()
    assert "fields" not in diff["steps"][0]


def test_keys_of_two_tenants_never_meet(world: TwoTenants, client: Client) -> None:
    key = {"Idempotency-Key": "the-same"}
    become(client, TOKEN)
    theirs = client.post("/v1/workloads", json=document(THEIRS, "zulu-keyed"), headers=key).json()
    become(client, world.secrets[Role.SUBMITTER, OURS])
    ours = client.post("/v1/workloads", json=document(OURS, "ours-keyed"), headers=key).json()
    assert ours["uid"] != theirs["uid"]
    assert client.post("/v1/workloads", json=document(OURS, "ours-keyed"), headers=key).json() == ours


@pytest.mark.parametrize("kind", ["Tenant", "Policy"])
def test_documents_of_the_fleet_take_its_admin(world: TwoTenants, client: Client, kind: str) -> None:
    spec = {"weight": 2.0} if kind == "Tenant" else {"verb": "place"}
    body = {"apiVersion": "dure.dev/v1alpha1", "kind": kind, "metadata": {"name": "ours"}, "spec": spec}
    become(client, world.secrets[Role.ADMIN, OURS])
    assert client.post("/v1/apply", json=body).status_code == 403
    assert client.post("/v1/diff", json=body).status_code == 403
    become(client, world.secrets[Role.OPERATOR, EVERY])
    assert client.post("/v1/apply", json=body).status_code == 403
    assert client.post("/v1/diff", json=body).status_code == 200


async def test_the_live_stream_shows_a_tenant_its_own_events(world: TwoTenants) -> None:
    stream = Stream(world.world.desk, heartbeat_s=0.01)
    task = asyncio.create_task(stream.run())
    frames = stream.frames(0, Who("anna", {OURS: Role.VIEWER}))
    past: list[bytes] = []
    while len(past) < 3:
        frame = await anext(frames)
        if b"data:" in frame:
            past.append(frame)
    for tenant in (THEIRS, "", OURS):
        world.store.commit([], events=[Event(1.0, "Note", f"live of {tenant or 'nobody'}", tenant=tenant)])
    live = b""
    while b"live of" not in live:
        live = await anext(frames)
        assert THEIRS.encode() not in live
    assert b"live of ours" in live
    assert not any(THEIRS.encode() in frame for frame in past)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _still(text: str) -> Any:
    """Without what differs from call to call: one-time codes and counters of requests."""
    if text.startswith("{"):
        body = msgspec.json.decode(text)
        body.pop("path", None)
        return body
    return "\n".join(line for line in text.splitlines() if not line.startswith("dure_serve"))
