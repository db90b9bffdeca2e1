"""How many requests a serving answered, how many in time, how many wait: what its pods show, and what is kept of it.

`reading` asks the pods. A latency histogram of a known name says it; the counts are kept in the Placement's status,
so that they survive agents, and pods whose counters begin again. Where nothing can be read nothing is written:
unknown is not zero. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from dure.adapters.kube.exposition import QUEUES, Samples, total

Json = dict[str, Any]
# Latency of whole requests in seconds, best known first: vLLM, TGI, Triton-like and plain HTTP servers.
HISTOGRAMS = (
    "vllm:e2e_request_latency_seconds",
    "tgi_request_duration",
    "request_duration_seconds",
    "http_request_duration_seconds",
)


class Count(NamedTuple):
    """`good` is None where the histogram cannot tell: no promise, or no bound at or below it; `waiting` is None where
    the engine shows no queue."""

    requests: int
    good: int | None
    waiting: int | None = None

    @property
    def kept(self) -> list[int | None]:
        """What has to be known of it at the next look."""
        return [self.requests, self.good]


def count_of(samples: Samples, promise_ms: float | None) -> Count | None:
    """Requests of the best known histogram, and those in buckets that lie within the promise for sure."""
    name = next((one for one in HISTOGRAMS if f"{one}_count" in samples), None)
    if name is None:
        return None
    buckets: dict[float, float] = {}
    for one in samples.get(f"{name}_bucket", []):
        bound = float(one.labels["le"])
        buckets[bound] = buckets.get(bound, 0.0) + one.value
    within = [bound for bound in buckets if promise_ms is not None and bound * 1000 <= promise_ms]
    requests, waiting = total(samples, (f"{name}_count",)), total(samples, QUEUES)
    return Count(
        int(requests or 0.0),
        int(buckets[max(within)]) if within else None,
        int(waiting) if waiting is not None else None,
    )


def added(status: Json, counts: Mapping[str, Count], alive: Collection[str]) -> Json:
    """What of the status changes. A counter that is lower than before has begun again from zero.

    Pods that are gone are forgotten by a null, as a merge patch wants it, and so is a queue that nobody shows.
    """
    before: Json = status.get("traffic", {})
    now: Json = {uid: None for uid in before if uid not in alive}
    requests, good = status.get("requests"), status.get("requestsGood")
    for uid, count in counts.items():
        old_requests, old_good = before.get(uid, (0, 0))
        begun_again = count.requests < old_requests
        requests = (requests or 0) + count.requests - (0 if begun_again else old_requests)
        if count.good is not None:
            good = (good or 0) + count.good - (0 if begun_again else old_good or 0)
        if before.get(uid) != count.kept:
            now[uid] = count.kept
    shown = [count.waiting for count in counts.values() if count.waiting is not None]
    waiting = sum(shown) if shown else None
    queue: Json = {"waiting": waiting} if waiting != status.get("waiting") else {}
    if not now:
        return queue
    found = {"requests": requests, "requestsGood": good, "traffic": now}
    return queue | {key: value for key, value in found.items() if value is not None}
