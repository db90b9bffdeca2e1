"""Targets on loopback, scraped into a store in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest
from structlog.testing import capture_logs

from dure.adapters.memory.metrics import MemoryMetrics
from dure.adapters.metrics.scrape import Scraper
from dure.model.errors import InvalidInput

PAGE = 'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",Hostname="n1",pod="p"} 40\nsomething_else 3\n'


class Target(BaseHTTPRequestHandler):
    pages: ClassVar[dict[str, tuple[int, str, str]]] = {}

    def do_GET(self) -> None:
        status, kind, body = self.pages.get(self.path, (404, "text/plain", "no"))
        self.send_response(status)
        self.send_header("content-type", kind)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Tests are quiet."""


@pytest.fixture
def target() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Target)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def scraper(store: MemoryMetrics, *targets: str) -> Scraper:
    ticks = iter(range(100, 10_000))
    return Scraper(targets, store, lambda: float(next(ticks)), lambda: 0.0)


def test_what_is_known_of_a_page_is_kept_and_the_target_is_up(target: str) -> None:
    Target.pages = {"/metrics": (200, "text/plain; version=0.0.4", PAGE)}
    store = MemoryMetrics()
    asked = scraper(store, f"{target}/metrics")
    assert asked.turn() == 1
    (busy,) = store.fetch_samples("dure_device_busy_ratio", 0, 999)
    assert busy.value == 0.4
    assert [one.value for one in store.fetch_samples("dure_scrape_up_bool", 0, 999)] == [1.0]
    asked.stop()


def test_a_target_that_fails_is_told_once_and_is_down_while_the_other_goes_on(target: str) -> None:
    Target.pages = {"/metrics": (200, "text/plain", PAGE), "/broken": (200, "text/plain", "<html>\n")}
    store = MemoryMetrics()
    asked = scraper(store, f"{target}/broken", f"{target}/missing", f"{target}/metrics")
    with capture_logs() as logs:
        assert [asked.turn(), asked.turn()] == [1, 1]
    assert sorted(log["target"].rsplit("/", 1)[1] for log in logs) == ["broken", "missing"]
    up = {
        one.labels["target"].rsplit("/", 1)[1]: one.value
        for one in store.fetch_samples("dure_scrape_up_bool", 0, 999)
    }
    assert up == {"broken": 0.0, "missing": 0.0, "metrics": 1.0}
    Target.pages["/broken"] = (200, "text/plain", PAGE)
    assert asked.turn() == 2
    asked.stop()


def test_an_address_that_is_none_is_refused_with_an_example() -> None:
    with pytest.raises(InvalidInput, match="no address") as refused:
        scraper(MemoryMetrics(), "ftp://somewhere/metrics")
    assert "http://HOST:PORT/metrics" in refused.value.remedy
