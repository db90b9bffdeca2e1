"""API tokens: shown once, kept as digests, scoped, expiring, rotated with grace, revoked at once."""

from __future__ import annotations

import time
from typing import Any

import pytest

from dure.api.auth import OWNER, Keys
from dure.api.people import FRESH_S, Directory
from dure.model.errors import NotFound
from dure.model.tenant import Role, Tenant
from dure.model.token import TokenWish
from dure.plane import tokens
from tests.unit.api.clients import TOKEN, Client
from tests.unit.api.small_world import SmallWorld

WISH = {"name": "ci-vision", "role": "submitter", "tenant": "vision", "days": 30}


def made(client: Client, **changes: Any) -> dict[str, Any]:
    answer = client.post("/v1/tokens", json={**WISH, **changes})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def as_token(client: Client, secret: str) -> Client:
    client.headers["authorization"] = f"Bearer {secret}"
    return client


def test_a_token_is_shown_once_and_kept_as_a_digest(client: Client, world: SmallWorld) -> None:
    token = made(client)
    listed = client.get("/v1/tokens").text
    secret = token["secret"].partition(token["id"])[2][1:]  # which may have underscores of its own
    assert len(secret) > 40
    assert secret not in listed
    assert secret not in repr(world.store.list_tokens())
    assert as_token(client, token["secret"]).get("/v1/whoami").json() == {
        "name": "ci-vision",
        "grants": {"vision": "submitter"},
        "via": f"token:{token['id']}",
    }


def test_a_revoked_token_ends_at_once_and_so_do_its_sessions(client: Client, app_keys: Keys) -> None:
    token = made(client)
    session = app_keys.new_session(f"token:{token['id']}")
    assert app_keys.check_session(session)
    assert client.delete("/v1/tokens/ci-vision").json()["revoked_s"] > 0
    assert not app_keys.check_session(session)
    assert as_token(client, token["secret"]).get("/v1/whoami").status_code == 401
    made(as_token(client, TOKEN))


def test_rotation_gives_a_new_secret_and_grace_to_the_old_one(client: Client) -> None:
    first = made(client)["secret"]
    second = client.post("/v1/tokens/ci-vision/rotate?grace_s=3600").json()["secret"]
    third = client.post("/v1/tokens/ci-vision/rotate").json()["secret"]
    assert len({first, second, third}) == 3
    assert as_token(client, third).get("/v1/whoami").status_code == 200
    for old in (first, second):
        assert as_token(client, old).get("/v1/whoami").status_code == 401


def test_within_its_grace_the_old_secret_opens_too() -> None:
    world, now = SmallWorld(), [1000.0]
    people = Directory(world.store, wall=lambda: now[0], timer=lambda: now[0])
    wish = TokenWish("ci", Role.VIEWER, "vision", days=1)
    first = tokens.create(world.store, wish, OWNER, now[0])
    second = tokens.rotate(world.store, first.id, OWNER, now[0], grace_s=60.0)
    assert people.check_token(first.secret)
    now[0] += 61
    assert not people.check_token(first.secret)
    assert people.check_token(second.secret)
    now[0] += 86_400
    assert not people.check_token(second.secret)
    with pytest.raises(NotFound):
        tokens.rotate(world.store, "nobody", OWNER, now[0])


def test_what_another_replica_revoked_ends_here_within_moments() -> None:
    world, now = SmallWorld(), [1000.0]
    people = Directory(world.store, wall=lambda: now[0], timer=lambda: now[0])
    token = tokens.create(world.store, TokenWish("ci", Role.VIEWER), OWNER, now[0])
    assert people.check_token(token.secret)
    tokens.revoke(world.store, "ci", OWNER, now[0])
    now[0] += FRESH_S
    assert not people.check_token(token.secret)


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"name": "a b"},
        {"name": "x" * 64},
        {"name": "\u202egod"},
        {"days": 0},
        {"days": 1e9},
        {"tenant": "nobody"},
        {"role": "god"},
        {"more": 1},
    ],
)
def test_a_wish_that_makes_no_sense_is_refused(client: Client, change: dict[str, Any]) -> None:
    assert client.post("/v1/tokens", json={**WISH, **change}).status_code in (400, 404)


def test_two_living_tokens_have_two_names(client: Client) -> None:
    made(client)
    assert client.post("/v1/tokens", json=WISH).status_code == 409


def test_an_admin_of_a_tenant_makes_tokens_for_it_alone(client: Client) -> None:
    as_token(client, made(client, name="boss", role="admin")["secret"])
    made(client)
    for tenant in ("*", "search", "no-such-tenant"):
        assert client.post("/v1/tokens", json={**WISH, "name": "more", "tenant": tenant}).status_code == 403
    assert {one["name"] for one in client.get("/v1/tokens").json()["items"]} == {"boss", "ci-vision"}


@pytest.mark.parametrize("candidate", ["", "dure_", "dure_00_x", f"dure_{'0' * 12}_{'A' * 43}", "é" * 60, "x" * 9000])
def test_what_only_looks_like_a_token_opens_nothing(world: SmallWorld, candidate: str) -> None:
    assert Directory(world.store).check_token(candidate) is None


def test_a_person_has_the_roles_that_tenants_give_by_name(world: SmallWorld) -> None:
    people = Directory(world.store, timer=time.monotonic)
    assert people.find("oidc:anna@example.org") is None
    people.forget()
    world.store.write_tenant(Tenant("vision", roles={"anna@example.org": Role.OPERATOR}))
    who = people.find("oidc:anna@example.org")
    assert who is not None
    assert who.grants == {"vision": Role.OPERATOR}
    assert people.find("somebody") is None
