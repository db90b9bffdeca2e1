"""How many requests a serving answered, and how many in time: what its pods show, and what is kept of it.

`reading` asks the pods. A latency histogram of a known name says it; the counts are kept in the Placement's status,
so that they survive agents, and pods whose counters begin again. Where nothing can be read nothing is written:
unknown is not zero. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

Json = dict[str, Any]
# Latency of whole requests in seconds, best known first: vLLM, TGI, Triton-like and plain HTTP servers.
HISTOGRAMS = (
    "vllm:e2e_request_latency_seconds",
    "tgi_request_duration",
    "request_duration_seconds",
    "http_request_duration_seconds",
)


class Count(NamedTuple):
    """`good` is None where the histogram cannot tell: no promise, or no bound at or below it."""

    requests: int
    good: int | None


def count_of(text: str, promise_ms: float | None) -> Count | None:
    """Requests of the best known histogram, and those in buckets that lie within the promise for sure."""
    try:
        families = {family.name: family.samples for family in text_string_to_metric_families(text)}
    except ValueError:
        return None
    for name in HISTOGRAMS:
        samples = families.get(name, ())
        total = sum(one.value for one in samples if one.name == f"{name}_count")
        if not any(one.name == f"{name}_count" for one in samples):
            continue
        buckets: dict[float, float] = {}
        for one in samples:
            if one.name == f"{name}_bucket":
                bound = float(one.labels["le"])
                buckets[bound] = buckets.get(bound, 0.0) + one.value
        within = [bound for bound in buckets if promise_ms is not None and bound * 1000 <= promise_ms]
        return Count(int(total), int(buckets[max(within)]) if within else None)
    return None


def added(status: Json, counts: Mapping[str, Count], alive: Collection[str]) -> Json:
    """What of the status changes. A counter that is lower than before has begun again from zero.

    Pods that are gone are forgotten by a null, as a merge patch wants it.
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
        if before.get(uid) != list(count):
            now[uid] = list(count)
    if not now:
        return {}
    found = {"requests": requests, "requestsGood": good, "traffic": now}
    return {key: value for key, value in found.items() if value is not None}
