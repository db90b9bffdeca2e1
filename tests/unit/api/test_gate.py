"""The door: who is let in, from where, and what every answer carries."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dure.api.auth import CODE_S, SESSION_S, Keys, fetch_token
from dure.model.errors import InvalidInput
from tests.unit.api.clients import TOKEN, Client
from tests.unit.api.small_world import HELD


@pytest.mark.parametrize("path", ["/", "/v1/status", "/metrics", "/schema", "/static/main.js", "/no/such/path"])
def test_strangers_learn_nothing_but_that_they_are_strangers(stranger: Client, path: str) -> None:
    answer = stranger.get(path)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("value", ["Bearer wrong", "Bearer", "Basic eA==", f"Token {TOKEN}", "Bearer \xff\xfe"])
def test_wrong_credentials_are_refused(stranger: Client, value: str) -> None:
    assert stranger.get("/v1/status", headers={b"authorization": value.encode("latin-1")}).status_code == 401


def test_a_wrong_token_is_refused_even_with_a_good_session(stranger: Client, app_keys: Keys) -> None:
    stranger.cookies.set(app_keys.cookie, app_keys.new_session())
    assert stranger.get("/v1/status").status_code == 200
    assert stranger.get("/v1/status", headers={"authorization": "Bearer wrong"}).status_code == 401


def test_a_login_link_works_once_and_leaves_a_strict_cookie(stranger: Client, app_keys: Keys) -> None:
    link = f"/login?code={app_keys.new_code()}"
    answer = stranger.get(link)
    cookie = answer.headers["set-cookie"].lower()
    assert answer.status_code == 200
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert stranger.get("/v1/status").status_code == 200
    stranger.cookies.clear()
    assert stranger.get(link).status_code == 401
    assert stranger.get("/v1/status").status_code == 401


def test_a_session_may_write_only_from_our_own_pages(stranger: Client, app_keys: Keys) -> None:
    stranger.cookies.set(app_keys.cookie, app_keys.new_session())
    path = f"/v1/workloads/{HELD}"
    assert stranger.delete(path).status_code == 403
    assert stranger.delete(path, headers={"origin": "http://evil.example"}).status_code == 403
    assert stranger.delete(path, headers={"origin": "null"}).status_code == 403
    assert stranger.delete(path, headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert stranger.delete(path, headers={"origin": "http://127.0.0.1"}).status_code == 200


def test_the_token_can_be_typed_into_the_form(stranger: Client) -> None:
    own = {"origin": "http://127.0.0.1"}
    assert stranger.post("/login", data={"token": "wrong"}, headers=own).status_code == 401
    assert stranger.post("/login", data={"token": TOKEN}).status_code == 403
    assert stranger.post("/login", data={"token": TOKEN}, headers=own).status_code == 200
    assert stranger.get("/").status_code == 200
    assert stranger.post("/logout", headers=own).status_code == 200
    assert stranger.get("/").status_code == 401


def test_a_new_login_link_is_given_to_who_has_the_token(client: Client) -> None:
    path = client.post("/v1/login-links").json()["path"]
    del client.headers["authorization"]
    assert client.get(path).status_code == 200
    assert client.get("/v1/status").status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "localhost.evil:1"]
)
def test_other_names_for_this_address_are_refused(client: Client, host: str) -> None:
    assert client.get("/v1/status", headers={"host": host}).status_code in (400, 421)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:7420", "127.0.0.1:7420", "[::1]:7420", "10.0.0.7"])
def test_loopback_names_and_plain_addresses_are_fine(client: Client, host: str) -> None:
    assert client.get("/v1/status", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("path", ["/v1/status", "/nowhere", "/", "/healthz"])
def test_every_answer_carries_the_safe_headers(client: Client, path: str) -> None:
    headers = client.get(path).headers
    assert "unsafe" not in headers["content-security-policy"]
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"


def test_a_browser_without_session_sees_a_form_instead_of_json(stranger: Client) -> None:
    answer = stranger.get("/", headers={"accept": "text/html"})
    assert answer.status_code == 401
    assert "<form" in answer.text


def test_the_token_file_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = fetch_token(path)
    assert len(token) >= 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert fetch_token(path) == token


def test_a_token_file_that_others_can_read_is_refused_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "token"
    fetch_token(path)
    path.chmod(0o644)
    with pytest.raises(InvalidInput, match="chmod 600"):
        fetch_token(path)


def test_sessions_and_codes_end_with_time_and_sessions_survive_a_restart() -> None:
    now = 1_000_000.0

    def wall() -> float:
        return now

    keys = Keys(TOKEN, wall=wall)
    session, code = keys.new_session(), keys.new_code()
    assert Keys(TOKEN, wall=wall).check_session(session)
    assert not Keys("another-token-entirely", wall=wall).check_session(session)
    assert not keys.check_session(session.replace(session[0], "9", 1))
    now += max(SESSION_S, CODE_S) + 1
    assert not keys.check_session(session)
    assert not keys.redeem_code(code)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
@pytest.mark.parametrize(("mode", "taken"), [(0o440, True), (0o400, True), (0o444, False), (0o460, False)])
def test_a_token_that_root_gave_to_the_group_of_a_service_is_taken(tmp_path: Path, mode: int, taken: bool) -> None:
    path = tmp_path / "token"
    fetch_token(path)
    os.chown(path, 65532, 65532)
    path.chmod(mode)
    if taken:
        assert fetch_token(path)
    else:
        with pytest.raises(InvalidInput, match="read by others"):
            fetch_token(path)
