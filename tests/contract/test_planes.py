"""The plane contract in process and over HTTP, and what only the way over HTTP has: joining, waiting, credentials."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import httpx
import pytest

from dure.adapters.clock import VirtualClock
from dure.adapters.memory.store import MemoryStore
from dure.adapters.plane_http import HttpPlane, join
from dure.api.app import create_app
from dure.api.auth import Keys
from dure.api.server import Server, open_socket
from dure.embedded.world import EmbeddedWorld
from dure.model.errors import NotAllowed, Temporary
from dure.model.fleet import Fleet
from dure.model.report import Desired, Report
from dure.plane.members import LocalPlane
from dure.ports import PlanePort, StorePort
from tests.contract.plane_contract import PlaneContract, PlaneHarness, place, report
from tests.fixtures.small_world import CATALOGUE, cluster, pool

TOKEN = "a-token-of-decent-length"


class LocalHarness:
    """In process the plane can only be away when its store is."""

    def __init__(self) -> None:
        self.store: StorePort = MemoryStore()
        self.port: PlanePort = LocalPlane(self.store)

    def go_away(self) -> None:
        class Away(LocalPlane):
            def fetch_desired(self, cluster: str) -> tuple[Desired, ...]:
                raise Temporary("the store is away")

            def write_report(self, report: Report) -> None:
                raise Temporary("the store is away")

        self.port = Away(self.store)


class HttpHarness:
    def __init__(self) -> None:
        fleet = Fleet("test", (cluster(pool("big", "big")), cluster(pool("big", "big"), name="elsewhere")))
        self.store: StorePort = MemoryStore()
        desk = EmbeddedWorld(fleet, CATALOGUE, self.store, VirtualClock(1.0), seed=1).desk
        self.server = Server(create_app(desk, Keys(TOKEN)), *open_socket("127.0.0.1", 0))
        self.url = self.server.start().url
        self.credential = join(self.url, "test", self.join_token("test"))
        self.port = HttpPlane(self.url, "test", self.credential)

    def join_token(self, name: str) -> str:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        answer = httpx.post(f"{self.url}/v1/clusters/{name}/join-tokens", headers=headers, trust_env=False)
        return str(answer.raise_for_status().json()["token"])

    def go_away(self) -> None:
        self.server.stop()

    def close(self) -> None:
        self.port.close()
        self.server.stop()


class TestLocalPlane(PlaneContract):
    @pytest.fixture
    def harness(self) -> PlaneHarness:
        return LocalHarness()


@pytest.fixture
def http() -> Iterator[HttpHarness]:
    harness = HttpHarness()
    yield harness
    harness.close()


class TestHttpPlane(PlaneContract):
    @pytest.fixture
    def harness(self, http: HttpHarness) -> PlaneHarness:
        return http


def test_a_join_token_works_once(http: HttpHarness) -> None:
    token = http.join_token("elsewhere")
    join(http.url, "elsewhere", token)
    with pytest.raises(NotAllowed, match="used"):
        join(http.url, "elsewhere", token)


def test_a_join_token_works_for_its_own_cluster_only(http: HttpHarness) -> None:
    with pytest.raises(NotAllowed):
        join(http.url, "elsewhere", http.join_token("test"))


def test_a_credential_opens_nothing_of_another_cluster(http: HttpHarness) -> None:
    join(http.url, "elsewhere", http.join_token("elsewhere"))
    with contextlib.closing(HttpPlane(http.url, "elsewhere", http.credential)) as foreign, pytest.raises(NotAllowed):
        foreign.fetch_desired("elsewhere")
    with pytest.raises(NotAllowed, match="cannot report"):
        http.port.write_report(Report("elsewhere", 1.0, "1", (), ()))


def test_the_user_token_is_no_agents_credential(http: HttpHarness) -> None:
    with contextlib.closing(HttpPlane(http.url, "test", TOKEN)) as user, pytest.raises(NotAllowed):
        user.fetch_desired("test")


def test_secrets_are_kept_as_digests_only(http: HttpHarness) -> None:
    token = http.join_token("test")
    kept = [http.store.fetch_setting("agent/test") or "", http.store.fetch_setting("agent-join/test") or ""]
    assert all(kept)
    assert not any(token in one or http.credential in one for one in kept)


def test_a_long_poll_answers_when_something_is_wanted(http: HttpHarness) -> None:
    assert http.port.fetch_desired("test") == ()
    answered: list[bool] = []
    waiter = threading.Thread(target=lambda: answered.append(http.port.wait_for_news(30.0)))
    waiter.start()
    place(http.store, "new")
    waiter.join(25.0)
    assert answered == [True]
    assert len(http.port.fetch_desired("test")) == 1


def test_a_long_poll_without_news_says_so(http: HttpHarness) -> None:
    http.port.fetch_desired("test")
    assert http.port.wait_for_news(0.1) is False


def test_an_agent_is_told_its_pools_and_the_catalogue(http: HttpHarness) -> None:
    membership = http.port.fetch_membership()
    assert [one.name for one in membership.spec.pools] == ["big"]
    assert membership.catalogue.classes


def test_a_report_is_seen_by_the_plane(http: HttpHarness) -> None:
    http.port.write_report(report(5.0))
    assert [one.at_s for one in http.store.list_reports()] == [5.0]
