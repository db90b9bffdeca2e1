"""What `EnginePort` promises: on the fake, and over HTTP on the modelled engine that sleeps as vLLM does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import httpx
import pytest

from dure.adapters.vllm import VllmEngines
from dure.embedded.engines import Engine
from dure.front.choose import Work
from dure.model.errors import DureError, NotFound, Permanent, Temporary
from dure.model.pulse import Rest
from dure.ports import EnginePort
from lab.loopback import Loopback, Quiet
from tests.contract.fake_engines import FakeEngines

PATIENCE_S = 30.0


class Side(Protocol):
    """The other side of the port: an engine that is awake, and what it has inside."""

    @property
    def url(self) -> str: ...

    @property
    def port(self) -> EnginePort: ...

    def begin(self) -> None:
        """A request comes, and stays for a moment."""
        ...

    def ended(self) -> bool:
        """Whether that request was answered; False when it was ended without."""
        ...


class InMemory:
    url = "http://engine"

    def __init__(self) -> None:
        self.port = self._fake = FakeEngines(self.url)
        self._answered = False

    def begin(self) -> None:
        self._fake.put(self.url, in_flight=1)
        threading.Timer(0.3, self._end).start()

    def ended(self) -> bool:
        return self._answered

    def _end(self) -> None:
        if self._fake.rests[self.url].in_flight:
            self._answered = True
            self._fake.put(self.url)


class OverHttp:
    """A prompt of four bytes takes 0.4 s."""

    def __init__(self, engine: Engine) -> None:
        self.url, self.port = engine.url, VllmEngines(PATIENCE_S)
        self._clients = ThreadPoolExecutor(1)

    def begin(self) -> None:
        url = f"{self.url}/v1/completions"
        self._answer = self._clients.submit(httpx.post, url, content=b'{"prompt": "word"}')
        while not self.port.fetch_rest(self.url).in_flight:
            assert not self._answer.done()

    def ended(self) -> bool:
        return self._answer.result(PATIENCE_S).status_code == 200

    def close(self) -> None:
        self._clients.shutdown()
        self.port.close()


@pytest.fixture
def engine() -> Iterator[Engine]:
    """On loopback, in a loop and thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="engine")
    thread.start()
    made = Engine(Work(0.0, 0.0, 0.4), sleep_s=0.05, wake_s=0.1)
    asyncio.run_coroutine_threadsafe(made.start(), loop).result(PATIENCE_S)
    yield made
    asyncio.run_coroutine_threadsafe(made.stop(), loop).result(PATIENCE_S)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(PATIENCE_S)
    loop.close()


@pytest.fixture(params=["memory", "http"])
def side(request: pytest.FixtureRequest) -> Iterator[Side]:
    if request.param == "memory":
        yield InMemory()
        return
    found = OverHttp(request.getfixturevalue("engine"))
    yield found
    found.close()


def test_one_sleeps_and_wakes_and_both_may_be_said_twice(side: Side) -> None:
    assert side.port.fetch_rest(side.url) == Rest(asleep=False, in_flight=0)
    for _ in range(2):
        side.port.sleep(side.url)
        assert side.port.fetch_rest(side.url) == Rest(asleep=True, in_flight=0)
    for _ in range(2):
        side.port.wake(side.url)
        assert side.port.fetch_rest(side.url) == Rest(asleep=False, in_flight=0)


def test_what_is_inside_is_counted_and_finished_before_sleep(side: Side) -> None:
    side.begin()
    assert side.port.fetch_rest(side.url) == Rest(asleep=False, in_flight=1)
    side.port.sleep(side.url)
    assert side.ended()
    assert side.port.fetch_rest(side.url) == Rest(asleep=True, in_flight=0)


def test_who_aborts_does_not_wait(side: Side) -> None:
    side.begin()
    side.port.sleep(side.url, abort=True)
    assert not side.ended()
    assert side.port.fetch_rest(side.url).asleep


def test_where_nobody_is_that_is_temporary(side: Side) -> None:
    nobody = "http://127.0.0.1:9"
    for call in (side.port.fetch_rest, side.port.sleep, side.port.wake):
        with pytest.raises(Temporary):
            call(nobody)


def test_asleep_the_modelled_engine_computes_nothing_and_shows_itself_all_the_same(engine: Engine) -> None:
    port = VllmEngines()
    port.sleep(engine.url)
    assert httpx.post(f"{engine.url}/v1/completions", content=b'{"prompt": "word"}').status_code == 503
    assert httpx.get(f"{engine.url}/health").status_code == 200
    assert "vllm:num_requests_running 0" in httpx.get(f"{engine.url}/metrics").text
    port.wake(engine.url)
    assert httpx.post(f"{engine.url}/v1/completions", content=b'{"prompt": "word"}').status_code == 200
    port.close()


@pytest.mark.parametrize(
    ("path", "status", "body", "error", "words"),
    [
        ("/is_sleeping", 404, b"{}", NotFound, "--enable-sleep-mode"),
        ("/is_sleeping", 200, b"[]", Permanent, "nothing about sleep"),
        ("/metrics", 200, b"up 1\n", Permanent, "no requests"),
        ("/wake_up", 500, b"", Permanent, "answered 500"),
        ("/wake_up", 503, b"", Temporary, "answered 503"),
    ],
)
def test_what_is_no_such_engine_is_told_apart(
    path: str, status: int, body: bytes, error: type[DureError], words: str
) -> None:
    class Handler(Quiet):
        def get(self) -> None:
            if self.path == path:
                self.reply(status, body)
            else:
                self.reply(200, b'{"is_sleeping": false}')

        def do_POST(self) -> None:  # noqa: N802 - the name that the server calls
            self.reply(status, body)

    with Loopback(Handler, "engine") as server:
        port = VllmEngines()
        with pytest.raises(error, match=words):
            (port.wake if path == "/wake_up" else port.fetch_rest)(f"http://{server.address}")
        port.close()


def test_a_pod_without_an_address_is_told_what_it_lacks() -> None:
    port = VllmEngines()
    with pytest.raises(DureError, match=r"prometheus\.io/port"):
        port.fetch_rest("")
    port.close()
