"""Signing in with an identity provider: the real flow against one on loopback, and every way to cheat in it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from dure.adapters.oidc import KEYS_EVERY_S, SKEW_S, Provider, Relying
from dure.api.app import create_app
from dure.api.auth import Keys
from dure.api.server import Server, open_socket
from dure.model.errors import InvalidInput, NotAllowed, Temporary
from dure.model.tenant import Role, Tenant
from tests.fixtures.identity_provider import CLIENT, SECRET, IdentityProvider
from tests.unit.api.clients import TOKEN
from tests.unit.api.small_world import SmallWorld


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    running = IdentityProvider()
    yield running
    running.close()


@pytest.fixture
def relying(provider: IdentityProvider) -> Iterator[Relying]:
    found = Relying(Provider(provider.issuer, CLIENT, SECRET))
    yield found
    found.close()


@pytest.fixture
def server(world: SmallWorld, relying: Relying) -> Iterator[Server]:
    world.store.write_tenant(Tenant("vision", roles={"anna@example.org": Role.SUBMITTER}))
    app = create_app(world, Keys(TOKEN), relying=relying, admins=["boss@example.org"])
    running = Server(app, *open_socket(port=0))
    running.start()
    yield running
    running.stop()


@pytest.fixture
def browser(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.address.url, follow_redirects=True, trust_env=False) as client:
        yield client


def test_a_person_signs_in_and_has_the_role_that_a_tenant_gives_them(browser: httpx.Client) -> None:
    assert "/login/sso" in browser.get("/login").text
    assert browser.get("/login/sso").status_code == 200
    assert browser.get("/v1/whoami").json() == {
        "name": "anna@example.org",
        "grants": {"vision": "submitter"},
        "via": "oidc:anna@example.org",
    }
    assert browser.get("/v1/policies").status_code == 403


def test_an_admin_by_name_may_do_everything(browser: httpx.Client, provider: IdentityProvider) -> None:
    provider.person = "boss@example.org"
    browser.get("/login/sso")
    assert browser.get("/v1/whoami").json()["grants"] == {"*": "admin"}


def test_a_role_that_is_taken_away_ends_the_session(browser: httpx.Client, world: SmallWorld, server: Server) -> None:
    browser.get("/login/sso")
    world.store.write_tenant(Tenant("vision"))
    server._app.service.people.forget()
    assert browser.get("/v1/whoami").status_code == 401


def test_who_has_no_role_here_is_told_so_and_not_let_in(browser: httpx.Client, provider: IdentityProvider) -> None:
    provider.person = "mallory@example.org"
    assert browser.get("/login/sso").status_code == 403
    assert browser.get("/v1/whoami").status_code == 401


CHEATS: dict[str, dict[str, Any]] = {
    "ended": {"exp": int(time.time()) - SKEW_S - 30},
    "not yet": {"nbf": int(time.time()) + 3600},
    "endless": {"exp": None},
    "for another program": {"aud": "other"},
    "for several, made for another": {"aud": [CLIENT, "other"], "azp": "other"},
    "of another provider": {"iss": "https://evil.example"},
    "of another attempt": {"nonce": "other"},
    "without a name": {"email": None},
    "with an odd name": {"email": "anna\u202e@example.org"},
    "not verified": {"email_verified": False},
}


@pytest.mark.parametrize("claims", CHEATS.values(), ids=CHEATS.keys())
def test_a_token_that_is_not_right_lets_nobody_in(
    browser: httpx.Client, provider: IdentityProvider, claims: dict[str, Any]
) -> None:
    provider.claims = claims
    assert browser.get("/login/sso").status_code == 401
    assert browser.get("/v1/whoami").status_code == 401


@pytest.mark.parametrize("forge", ["none", "HS256", "RS512"])
def test_the_algorithm_is_that_of_the_key_and_not_the_tokens(
    browser: httpx.Client, provider: IdentityProvider, forge: str
) -> None:
    provider.forge = forge
    assert browser.get("/login/sso").status_code == 401


def test_clocks_may_differ_a_little(relying: Relying, provider: IdentityProvider) -> None:
    provider.claims = {"exp": int(time.time()) - SKEW_S + 20, "nbf": int(time.time()) + SKEW_S - 20}
    assert relying.name_in(provider.token("n"), "n") == "anna@example.org"


@pytest.mark.parametrize("kind", ["RSA", "EC"])
def test_keys_are_rotated_and_withdrawn_ones_open_nothing(provider: IdentityProvider, kind: str) -> None:
    now = [100.0]
    relying = Relying(Provider(provider.issuer, CLIENT, SECRET), timer=lambda: now[0])
    old = provider.token("n")
    assert relying.name_in(old, "n")
    provider.rotate(kind)
    now[0] += KEYS_EVERY_S
    assert relying.name_in(provider.token("n"), "n")
    with pytest.raises(NotAllowed, match="key"):
        relying.name_in(old, "n")
    relying.close()


def test_unknown_keys_make_nobody_ask_the_provider_over_and_over(provider: IdentityProvider) -> None:
    relying = Relying(Provider(provider.issuer, CLIENT, SECRET), timer=lambda: 100.0)
    assert relying.name_in(provider.token("n"), "n")
    provider.rotate()
    for _ in range(20):
        with pytest.raises(NotAllowed):
            relying.name_in(provider.token("n"), "n")
    assert provider.keys_asked == 1
    relying.close()


def test_an_attempt_belongs_to_the_browser_that_began_it(
    browser: httpx.Client, server: Server, provider: IdentityProvider
) -> None:
    step = browser.get("/login/sso", follow_redirects=False)
    callback = httpx.get(step.headers["location"]).headers["location"]
    with httpx.Client(trust_env=False) as other:
        assert other.get(callback).status_code == 401
        other.cookies.set("dure_sso", "1.a.b.c.forged", domain="127.0.0.1")
        assert other.get(callback).status_code == 401
    assert browser.get(callback.replace("state=", "state=x")).status_code == 401
    step = browser.get("/login/sso", follow_redirects=False)
    callback = httpx.get(step.headers["location"]).headers["location"]
    assert browser.get(callback).status_code == 200
    # The code was used, and so was the attempt.
    assert browser.get(callback).status_code == 401


def test_a_provider_that_is_away_is_temporary_and_one_without_tls_is_refused(provider: IdentityProvider) -> None:
    with pytest.raises(InvalidInput, match="https"):
        Relying(Provider("http://login.example", CLIENT, SECRET))
    gone = Relying(Provider("http://127.0.0.1:9", CLIENT, SECRET))
    with pytest.raises(Temporary):
        gone.authorization_url("http://x", "s", "n", "v")
    gone.close()


def test_without_a_provider_there_is_no_such_way_in(world: SmallWorld) -> None:
    running = Server(create_app(world, Keys(TOKEN)), *open_socket(port=0))
    running.start()
    assert httpx.get(f"{running.address.url}/login/sso").status_code == 404
    running.stop()


@pytest.mark.parametrize("token", ["", "a.b", "a.b.c", "é.é.é", "x" * 20_000, "..", "e30.e30.e30"])
def test_what_is_no_token_is_refused(relying: Relying, token: str) -> None:
    with pytest.raises(NotAllowed):
        relying.name_in(token, "n")
