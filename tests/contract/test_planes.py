"""The plane contract in process, over HTTP and over gRPC, and what only a link has: joining, waiting, credentials."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from dure.adapters.clock import VirtualClock
from dure.adapters.memory.store import MemoryStore
from dure.adapters.plane_link import join, open_link
from dure.api.agent_stream import AgentStream, Tls
from dure.api.app import create_app
from dure.api.auth import Keys
from dure.api.server import Server, open_socket
from dure.embedded.world import EmbeddedWorld
from dure.model.defrag import DefragWish
from dure.model.errors import InvalidInput, NotAllowed, Temporary
from dure.model.fleet import Fleet
from dure.model.report import Desired, Report
from dure.plane.members import LocalPlane
from dure.ports import PlaneLink, PlanePort, StorePort
from lab.pki import Authority
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

            def fetch_wish(self, cluster: str) -> DefragWish | None:
                raise Temporary("the store is away")

            def write_report(self, report: Report) -> None:
                raise Temporary("the store is away")

        self.port = Away(self.store)


class LinkHarness:
    """A plane that serves both ways, and a link over one of them."""

    def __init__(self, way: str) -> None:
        fleet = Fleet("test", (cluster(pool("big", "big")), cluster(pool("big", "big"), name="elsewhere")))
        self.store: StorePort = MemoryStore()
        desk = EmbeddedWorld(fleet, CATALOGUE, self.store, VirtualClock(100.0), seed=1).desk
        self.server = Server(create_app(desk, Keys(TOKEN)), *open_socket("127.0.0.1", 0))
        self.stream = AgentStream(desk, "127.0.0.1", 0, streams=2)
        self.rest = self.server.start().url
        self.url = {"http": self.rest, "grpc": self.stream.start()}[way]
        self.credential = join(self.url, "test", self.join_token("test"))
        self.port = self.link("test", self.credential)

    def link(self, name: str, credential: str) -> PlaneLink:
        return open_link(self.url, name, credential)

    def join_token(self, name: str) -> str:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        answer = httpx.post(f"{self.rest}/v1/clusters/{name}/join-tokens", headers=headers, trust_env=False)
        return str(answer.raise_for_status().json()["token"])

    def go_away(self) -> None:
        self.server.stop()
        self.stream.stop()

    def close(self) -> None:
        self.port.close()
        self.go_away()


@pytest.fixture(params=["http", "grpc"])
def linked(request: pytest.FixtureRequest) -> Iterator[LinkHarness]:
    harness = LinkHarness(request.param)
    yield harness
    harness.close()


@pytest.fixture
def streamed() -> Iterator[LinkHarness]:
    harness = LinkHarness("grpc")
    yield harness
    harness.close()


class TestLocalPlane(PlaneContract):
    @pytest.fixture
    def harness(self) -> PlaneHarness:
        return LocalHarness()


class TestLinkedPlane(PlaneContract):
    @pytest.fixture
    def harness(self, linked: LinkHarness) -> PlaneHarness:
        return linked


def test_a_join_token_works_once(linked: LinkHarness) -> None:
    token = linked.join_token("elsewhere")
    join(linked.url, "elsewhere", token)
    with pytest.raises(NotAllowed, match="used") as refused:
        join(linked.url, "elsewhere", token)
    assert "dure cluster join elsewhere" in refused.value.remedy


def test_an_agent_that_proposes_its_credential_may_join_again_but_no_other_may(linked: LinkHarness) -> None:
    token = linked.join_token("elsewhere")
    assert [join(linked.url, "elsewhere", token, "own-secret") for _ in range(2)] == ["own-secret"] * 2
    with pytest.raises(NotAllowed, match="used"):
        join(linked.url, "elsewhere", token, "another-secret")
    with pytest.raises(NotAllowed, match="used"):
        join(linked.url, "elsewhere", token)
    with contextlib.closing(linked.link("elsewhere", "own-secret")) as own:
        assert own.fetch_desired("elsewhere") == ()


def test_a_join_token_works_for_its_own_cluster_only(linked: LinkHarness) -> None:
    with pytest.raises(NotAllowed):
        join(linked.url, "elsewhere", linked.join_token("test"))


def test_a_credential_opens_nothing_of_another_cluster(linked: LinkHarness) -> None:
    join(linked.url, "elsewhere", linked.join_token("elsewhere"))
    with contextlib.closing(linked.link("elsewhere", linked.credential)) as foreign:
        with pytest.raises(NotAllowed):
            foreign.fetch_desired("elsewhere")
        with pytest.raises(NotAllowed):
            foreign.fetch_membership()
        with pytest.raises(NotAllowed):
            foreign.wait_for_news(30.0)
    with pytest.raises(NotAllowed, match="cannot report"):
        linked.port.write_report(Report("elsewhere", 1.0, "1", (), ()))


def test_the_user_token_is_no_agents_credential(linked: LinkHarness) -> None:
    with contextlib.closing(linked.link("test", TOKEN)) as user, pytest.raises(NotAllowed):
        user.fetch_desired("test")


def test_secrets_are_kept_as_digests_only(linked: LinkHarness) -> None:
    token = linked.join_token("test")
    kept = [linked.store.fetch_setting("agent/test") or "", linked.store.fetch_setting("agent-join/test") or ""]
    assert all(kept)
    assert not any(token in one or linked.credential in one for one in kept)


def test_who_waits_is_told_when_something_is_wanted(linked: LinkHarness) -> None:
    assert linked.port.fetch_desired("test") == ()
    answered: list[bool] = []
    waiter = threading.Thread(target=lambda: answered.append(linked.port.wait_for_news(60.0)))
    waiter.start()
    place(linked.store, "new")
    waiter.join(55.0)
    assert answered == [True]
    assert len(linked.port.fetch_desired("test")) == 1


def test_waiting_without_news_says_so(linked: LinkHarness) -> None:
    linked.port.fetch_desired("test")
    assert linked.port.wait_for_news(0.1) is False


def test_news_that_were_fetched_are_no_news_any_more(linked: LinkHarness) -> None:
    place(linked.store, "new")
    assert linked.port.wait_for_news(60.0) is True
    assert len(linked.port.fetch_desired("test")) == 1
    assert linked.port.wait_for_news(0.1) is False


def test_who_waits_for_a_plane_that_goes_away_is_told_so(linked: LinkHarness) -> None:
    linked.go_away()
    with pytest.raises(Temporary):
        linked.port.wait_for_news(30.0)


def test_an_agent_is_told_its_pools_and_the_catalogue(linked: LinkHarness) -> None:
    membership = linked.port.fetch_membership()
    assert [one.name for one in membership.spec.pools] == ["big"]
    assert membership.catalogue.classes


def test_a_report_is_seen_by_the_plane(linked: LinkHarness) -> None:
    linked.port.write_report(report(5.0))
    assert [one.at_s for one in linked.store.list_reports()] == [5.0]


def test_a_report_of_a_clock_that_is_ahead_counts_as_of_now(linked: LinkHarness) -> None:
    """Or a placement that is taken back in a moment would seem to be gone already."""
    linked.port.write_report(report(5000.0))
    assert [one.at_s for one in linked.store.list_reports()] == [100.0]


def test_a_stream_that_was_cut_is_opened_again(streamed: LinkHarness) -> None:
    port = int(streamed.url.rpartition(":")[2])
    assert streamed.port.fetch_desired("test") == ()
    assert streamed.port.wait_for_news(0.1) is False
    desk = streamed.stream._backend
    streamed.stream.stop()
    with pytest.raises(Temporary):
        streamed.port.wait_for_news(30.0)
    streamed.stream = AgentStream(desk, "127.0.0.1", port)
    streamed.stream.start()
    place(streamed.store, "new")

    deadline, told = time.monotonic() + 120.0, False
    while not told:
        assert time.monotonic() < deadline, "the stream never came back"
        with contextlib.suppress(Temporary):
            told = streamed.port.wait_for_news(10.0)


def test_streams_beyond_the_limit_are_refused_but_may_still_ask(streamed: LinkHarness) -> None:
    links = [streamed.link("test", streamed.credential) for _ in range(3)]
    with contextlib.ExitStack() as stack:
        for one in links:
            stack.enter_context(contextlib.closing(one))
            one.fetch_desired("test")
        assert [one.wait_for_news(0.3) for one in links[:2]] == [False, False]
        with pytest.raises(Temporary, match="as many agents"):
            links[2].wait_for_news(30.0)
        assert links[2].fetch_desired("test") == ()


def test_over_tls_only_the_authority_that_was_named_is_believed(streamed: LinkHarness, tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path / "ours", "ours"), Authority(tmp_path / "theirs", "theirs")
    pair = ours.server("plane", ["127.0.0.1"])
    secure = AgentStream(streamed.stream._backend, "127.0.0.1", 0, Tls(pair.cert, pair.key))
    url = secure.start()
    assert url.startswith("grpcs://")
    try:
        with contextlib.closing(open_link(url, "test", streamed.credential, ca=str(ours.cert))) as link:
            assert link.fetch_desired("test") == ()
        stranger = open_link(url, "test", streamed.credential, ca=str(theirs.cert))
        with contextlib.closing(stranger), pytest.raises(Temporary):
            stranger.fetch_desired("test")
    finally:
        secure.stop()


@pytest.mark.parametrize("url", ["127.0.0.1:7420", "ftp://127.0.0.1:1", "grpc://127.0.0.1"])
def test_an_address_that_is_none_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(InvalidInput, match="address") as refused:
        open_link(url, "test", "secret")
    assert "HOST:PORT" in refused.value.remedy
