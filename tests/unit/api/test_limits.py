"""How much one caller may ask: rates, guesses, bodies."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from litestar.testing import TestClient

from dure.api.app import create_app
from dure.api.auth import OWNER, Keys
from dure.api.limits import MAX_CALLERS, Buckets, Limits
from dure.model.tenant import Role
from dure.model.token import TokenWish
from dure.plane import tokens
from tests.unit.api.clients import TOKEN, Client
from tests.unit.api.small_world import SmallWorld

FEW = Limits(rate_per_s=0.001, burst=5, wrong_per_s=0.001, wrong_burst=4, body=1000, owner_body=5000)


@pytest.fixture
def strict(world: SmallWorld) -> Iterator[Client]:
    asgi: Any = create_app(world, Keys(TOKEN), limits=FEW).asgi
    with TestClient(asgi, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        yield client


def secret(world: SmallWorld, name: str) -> dict[str, str]:
    made = tokens.create(world.store, TokenWish(name, Role.SUBMITTER, "vision"), OWNER, time.time())
    return {"authorization": f"Bearer {made.secret}"}


def test_a_token_that_asks_too_much_waits_and_others_do_not(strict: Client, world: SmallWorld) -> None:
    busy, calm = secret(world, "busy"), secret(world, "calm")
    answers = [strict.get("/v1/whoami", headers=busy).status_code for _ in range(7)]
    assert answers == [200] * 5 + [429] * 2
    assert strict.get("/v1/whoami", headers=busy).headers["retry-after"]
    assert strict.get("/v1/whoami", headers=calm).status_code == 200
    own = {"authorization": f"Bearer {TOKEN}"}
    assert {strict.get("/v1/whoami", headers=own).status_code for _ in range(9)} == {200}


def test_who_guesses_is_slowed_down_even_for_a_right_guess(strict: Client) -> None:
    wrong = {"authorization": "Bearer wrong-wrong-wrong"}
    answers = [strict.get("/v1/whoami", headers=wrong).status_code for _ in range(6)]
    assert answers == [401] * 4 + [429] * 2
    assert strict.get("/v1/whoami", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 429


def test_who_comes_without_a_secret_is_no_guesser(strict: Client) -> None:
    assert {strict.get("/v1/whoami").status_code for _ in range(9)} == {401}


@pytest.mark.parametrize("declared", [True, False])
def test_a_body_beyond_the_limit_is_refused_whether_it_says_so_or_not(
    strict: Client, world: SmallWorld, declared: bool
) -> None:
    def pieces() -> Iterator[bytes]:
        yield from (b"#" * 500 for _ in range(4))

    headers = {**secret(world, "ci"), "content-type": "application/yaml"}
    body: Any = b"#" * 2000 if declared else pieces()
    assert strict.post("/v1/plan", content=body, headers=headers).status_code == 413
    own = {**headers, "authorization": f"Bearer {TOKEN}"}
    assert strict.post("/v1/plan", content=b"#" * 2000, headers=own).status_code == 400
    assert strict.post("/v1/plan", content=b"#" * 6000, headers=own).status_code == 413


@given(st.lists(st.floats(0, 10), max_size=60), st.floats(0.1, 50), st.floats(1, 50))
def test_nobody_gets_more_than_burst_and_rate_allow(gaps: list[float], rate: float, burst: float) -> None:
    now = [0.0]
    buckets = Buckets(rate, burst, lambda: now[0])
    got = 0
    for gap in gaps:
        now[0] += gap
        got += buckets.take("a") == 0.0
    assert got <= burst + rate * now[0] + 1e-6


def test_a_crowd_of_callers_does_not_fill_the_memory() -> None:
    buckets = Buckets(1.0, 5.0, lambda: 0.0)
    for number in range(MAX_CALLERS + 10):
        buckets.take(str(number))
    assert len(buckets._left) <= MAX_CALLERS
