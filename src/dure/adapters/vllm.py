"""Engines of vLLM that can sleep, over the HTTP endpoints of its development mode.

Called by `agent.awake`. Level 1: weights go to host memory, the cache of keys and values is forgotten. `mode` says
what becomes of requests that are inside, in versions that know it; older ones may break on them, so whoever puts one
to sleep lets it drain first. Metrics and health are answered asleep too. A sleeping engine is asked for nothing else.
"""

from __future__ import annotations

import httpx
import msgspec

from dure.adapters.kube.exposition import QUEUES, samples_of, total
from dure.adapters.kube.pulse import RUNNING
from dure.adapters.shapes import settle
from dure.model.errors import DureError, InvalidInput, Permanent, Temporary, kind_of
from dure.model.pulse import Rest
from dure.model.units import Seconds

LOOK_S = 2.0
PATIENCE_S = 20.0


class _Sleeping(msgspec.Struct, frozen=True):
    is_sleeping: bool


class VllmEngines:
    """`EnginePort` of any number of engines; may be called from many threads."""

    def __init__(self, patience_s: Seconds = PATIENCE_S) -> None:
        settle()
        self._patience_s = patience_s
        self._http = httpx.Client(trust_env=False, timeout=LOOK_S)

    def fetch_rest(self, url: str) -> Rest:
        """One that is slow to answer is asked once more: a busy engine is not a lost one."""
        try:
            return self._rest(url)
        except Temporary:
            return self._rest(url)

    def sleep(self, url: str, *, abort: bool = False) -> None:
        mode = "abort" if abort else "wait"
        self._call("POST", url, f"sleep?level=1&mode={mode}", self._patience_s)

    def wake(self, url: str) -> None:
        self._call("POST", url, "wake_up", self._patience_s)

    def close(self) -> None:
        self._http.close()

    def _rest(self, url: str) -> Rest:
        try:
            asleep = msgspec.json.decode(self._call("GET", url, "is_sleeping").content, type=_Sleeping).is_sleeping
        except msgspec.MsgspecError as error:
            raise Permanent(f"says nothing about sleep: {error}", where=url) from error
        samples = samples_of(self._call("GET", url, "metrics").text)
        running, waiting = total(samples, RUNNING), total(samples, QUEUES)
        if running is None or waiting is None:
            raise Permanent("shows no requests in its metrics", where=url)
        return Rest(asleep, int(running + waiting))

    def _call(self, method: str, url: str, path: str, patience_s: Seconds = LOOK_S) -> httpx.Response:
        if not url:
            raise InvalidInput(
                "a pod says no address", remedy="Annotate it with prometheus.io/scrape and prometheus.io/port."
            )
        try:
            answer = self._http.request(method, f"{url.rstrip('/')}/{path}", timeout=patience_s)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Temporary(f"does not answer: {str(error) or type(error).__name__}", where=url) from error
        if answer.is_success:
            return answer
        raise _refused(answer, url)


def _refused(answer: httpx.Response, url: str) -> DureError:
    remedy = "Start it with --enable-sleep-mode and VLLM_SERVER_DEV_MODE=1." if answer.status_code == 404 else ""
    return kind_of(answer.status_code)(f"answered {answer.status_code}", where=url, remedy=remedy)
