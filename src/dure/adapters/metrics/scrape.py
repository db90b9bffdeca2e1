"""Scrapes targets as Prometheus would, for those who run none, and keeps what Dure knows how to read.

`dure up --scrape URL` runs one. Each target is asked every 15 s in a lane of its own; one that does not answer is
noted once and asked again. Only http and https, a bounded answer, no proxy of the environment.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx
import structlog

from dure.adapters.metrics.exposition import ACCEPT, Reader
from dure.model.errors import DureError, InvalidInput, Temporary
from dure.model.sample import Sample
from dure.model.units import Instant, Seconds
from dure.ports import MetricsPort
from dure.watch.foreign import signal_of

EVERY_S: Seconds = 15.0
PATIENCE_S: Seconds = 10.0
MAX_BYTES = 64 * 1024 * 1024
LANES = 8
UP, TOOK = "dure_scrape_up_bool", "dure_scrape_seconds"

_log = structlog.get_logger("dure.scrape")


class Scraper:
    """`now` is the time that samples get, `timer` measures how long a scrape took."""

    def __init__(
        self,
        targets: Sequence[str],
        store: MetricsPort,
        now: Callable[[], Instant],
        timer: Callable[[], Seconds],
        http: httpx.Client | None = None,
    ) -> None:
        for target in targets:
            if urlsplit(target).scheme not in ("http", "https") or not urlsplit(target).hostname:
                raise InvalidInput(f"'{target}' is no address of metrics", remedy="Say http://HOST:PORT/metrics.")
        self._targets = tuple(targets)
        self._store, self._now, self._timer = store, now, timer
        self._http = http or httpx.Client(timeout=PATIENCE_S, trust_env=False, headers={"accept": ACCEPT})
        self._readers = {target: Reader(signal_of) for target in targets}
        self._silent: set[str] = set()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scrape", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(PATIENCE_S)
        self._http.close()

    def turn(self) -> int:
        """Ask every target once; answers how many samples were kept."""
        with ThreadPoolExecutor(min(LANES, len(self._targets)), "scrape-lane") as lanes:
            return sum(lanes.map(self._one, self._targets))

    def _one(self, target: str) -> int:
        at_s, began = self._now(), self._timer()
        labels = {"target": target}
        try:
            found = self._fetch(target, at_s)
            self._silent.discard(target)
        except (httpx.HTTPError, DureError) as error:
            found = []
            if target not in self._silent:
                self._silent.add(target)
                _log.warning("a target does not show its metrics", target=target, error=str(error))
        took = Sample(TOOK, labels, at_s, self._timer() - began)
        self._write([*found, took, Sample(UP, labels, at_s, float(target not in self._silent))])
        return len(found)

    def _fetch(self, target: str, at_s: Instant) -> list[Sample]:
        with self._http.stream("GET", target) as answer:
            answer.raise_for_status()
            body = bytearray()
            for part in answer.iter_bytes():
                body += part
                if len(body) > MAX_BYTES:
                    raise Temporary(f"more than {MAX_BYTES} bytes of metrics", where=target)
            kind = answer.headers.get("content-type", "")
        return self._readers[target].read(body.decode(errors="replace"), at_s, kind)

    def _write(self, samples: list[Sample]) -> None:
        try:
            self._store.write_samples(samples)
        except Temporary as error:
            _log.warning("scraped samples were not kept", error=str(error))

    def _run(self) -> None:
        while True:
            self.turn()
            if self._stopped.wait(EVERY_S):
                return
