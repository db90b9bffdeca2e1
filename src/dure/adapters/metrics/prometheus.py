"""`MetricsPort` on a real Prometheus (or what speaks its API: Thanos, Mimir, VictoriaMetrics).

Reads by the query API: every sample for short windows, means of steps by `query_range` for long ones. Writes by
remote write, which a Prometheus takes with `--web.enable-remote-write-receiver`. Times are those of the fleet's
clock, which must be the real one: Prometheus refuses samples of the future.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import httpx

from dure.adapters.metrics import remote_write
from dure.adapters.metrics.sqlite import MOST_POINTS
from dure.model.errors import InvalidInput, NotAllowed, Permanent, Temporary
from dure.model.sample import Sample
from dure.model.units import DAY_S, HOUR_S, Instant, Seconds

# Windows up to this long are answered sample by sample.
RAW_S: Seconds = 6 * HOUR_S
LONGEST_S: Seconds = 400 * DAY_S
PATIENCE_S: Seconds = 30.0
BATCH = 5_000
# A clock that runs behind makes every sample too old; then the search for the others ends here.
MOST_REFUSED = 200
_Labels = tuple[tuple[str, str], ...]


class PrometheusMetrics:
    """`url` is the root of the server; `close` it at the end. `token` is sent as a bearer token."""

    def __init__(
        self, url: str, *, token: str = "", now: Callable[[], Instant] = time.time, http: httpx.Client | None = None
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise InvalidInput(f"'{url}' is no address of a Prometheus", remedy="Say http://HOST:9090.")
        self._url = url.rstrip("/")
        self._now = now
        self._http = http or httpx.Client(timeout=PATIENCE_S, trust_env=False)
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._last: dict[tuple[str, _Labels], Instant] = {}

    def close(self) -> None:
        self._http.close()

    def fetch_samples(self, name: str, since_s: Instant, until_s: Instant) -> tuple[Sample, ...]:
        """Samples with `since_s <= at_s <= until_s`; over a long time means, each at the beginning of its step."""
        until_s = min(until_s, self._now() + HOUR_S)
        since_s = max(since_s, until_s - LONGEST_S)
        if until_s < since_s:
            return ()
        span_s = until_s - since_s
        found = self._raw(name, since_s, until_s) if span_s <= RAW_S else self._means(name, since_s, until_s)
        inside = (one for one in found if since_s <= one.at_s <= until_s)
        return tuple(sorted(inside, key=lambda one: (sorted(one.labels.items()), one.at_s)))

    def write_samples(self, samples: Iterable[Sample]) -> None:
        """What is not newer than its series' last sample is dropped, here or by the server."""
        news = [sample for sample in samples if self._is_news(sample)]
        refused = 0
        waiting = [news[begin : begin + BATCH] for begin in range(0, len(news), BATCH)]
        while waiting and refused < MOST_REFUSED:
            some = waiting.pop()
            if self._taken(some):
                continue
            # The server has newer samples of some series (we were restarted) and may have taken none of these:
            # those that are news are found by halves.
            refused += 1
            if len(some) > 1:
                half = len(some) // 2
                waiting += [some[half:], some[:half]]

    def _is_news(self, sample: Sample) -> bool:
        key = (sample.name, tuple(sorted(sample.labels.items())))
        if sample.at_s <= self._last.get(key, -math.inf):
            return False
        self._last[key] = sample.at_s
        return True

    def _taken(self, samples: Sequence[Sample]) -> bool:
        """False when the server says that samples are too old or there already."""
        content = remote_write.body(samples)
        answer = self._ask("POST", "/api/v1/write", content=content, headers=remote_write.HEADERS)
        if answer.status_code >= 300 and answer.status_code != 400:
            raise self._wrong(answer)
        return answer.status_code != 400

    def _raw(self, name: str, since_s: Instant, until_s: Instant) -> Iterable[Sample]:
        """A range selector alone answers samples as they are. It leaves out its left end, hence one ms more."""
        span_ms = math.ceil((until_s - since_s) * 1000) + 1
        given = {"query": f'{{__name__="{name}"}}[{span_ms}ms]', "time": f"{until_s:.3f}"}
        return _samples(name, self._query("/api/v1/query", given))

    def _means(self, name: str, since_s: Instant, until_s: Instant) -> Iterable[Sample]:
        step = max(15, math.ceil((until_s - since_s) / MOST_POINTS))
        begin_s = math.ceil(since_s / step) * step
        given = {
            "query": f'avg_over_time({{__name__="{name}"}}[{step}s])',
            "start": str(begin_s + step), "end": str(math.ceil(until_s / step) * step), "step": str(step),
        }  # fmt: skip
        return _samples(name, self._query("/api/v1/query_range", given), earlier_s=step)

    def _query(self, path: str, given: dict[str, str]) -> list[dict[str, Any]]:
        answer = self._ask("POST", path, data=given)
        if answer.status_code != 200:
            raise self._wrong(answer)
        found: list[dict[str, Any]] = answer.json()["data"]["result"]
        return found

    def _ask(self, method: str, path: str, headers: dict[str, str] | None = None, **given: Any) -> httpx.Response:
        try:
            return self._http.request(method, self._url + path, headers={**self._headers, **(headers or {})}, **given)
        except httpx.HTTPError as error:
            raise Temporary(f"Prometheus does not answer: {error}", where=self._url) from error

    def _wrong(self, answer: httpx.Response) -> Temporary | NotAllowed | Permanent:
        told = f"Prometheus answers {answer.status_code}: {answer.text[:200].strip()}"
        if answer.status_code in (401, 403):
            return NotAllowed(told, where=self._url)
        if answer.status_code == 404:
            remedy = "Start it with --web.enable-remote-write-receiver, or check the address."
            return Permanent(told, where=self._url, remedy=remedy)
        return Temporary(told, where=self._url) if answer.status_code >= 500 else Permanent(told, where=self._url)


def _samples(name: str, result: Iterable[dict[str, Any]], earlier_s: Seconds = 0.0) -> Iterable[Sample]:
    for series in result:
        labels = {key: value for key, value in series["metric"].items() if key != "__name__"}
        for at_s, value in series["values"]:
            yield Sample(name, labels, float(at_s) - earlier_s, float(value))
