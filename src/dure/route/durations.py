"""How long jobs of a kind take on a class: robust quantiles of what was seen, declared estimates until then.

A value: the gateway feeds it finished Workloads and stores it as JSON. Only the last observations of each pair are
kept, so a kind that changed is forgotten soon; the median makes single stragglers harmless.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping

import msgspec

from dure.model.units import Seconds

KEPT = 64
ENOUGH = 3
UNKNOWN_S = 60.0
_SEPARATOR = "\x1f"


class Durations(msgspec.Struct, frozen=True):
    """`seen` maps kind and class to the last run times, oldest first."""

    seen: Mapping[str, tuple[Seconds, ...]] = {}

    def learnt(self, kind: str, class_name: str, run_s: Seconds) -> Durations:
        """With one more observation; times that cannot be are left out."""
        if not 0 < run_s < 1e8:
            return self
        key = _key(kind, class_name)
        return Durations({**self.seen, key: (*self.seen.get(key, ()), run_s)[-KEPT:]})

    def quantile(self, kind: str, class_name: str, share: float) -> Seconds | None:
        times = sorted(self.seen.get(_key(kind, class_name), ()))
        if not times:
            return None
        return times[min(len(times) - 1, int(share * len(times)))]

    def expected(self, kind: str, class_name: str, declared_s: Seconds | None) -> tuple[Seconds, bool]:
        """What to reckon with, and whether it was learnt. Few observations are weighed against the estimate."""
        times = self.seen.get(_key(kind, class_name), ())
        if len(times) >= ENOUGH or (times and declared_s is None):
            return statistics.median(times), True
        if times and declared_s is not None:
            return (statistics.median(times) * len(times) + declared_s) / (len(times) + 1), True
        return (declared_s if declared_s is not None else UNKNOWN_S), False


def encode(durations: Durations) -> bytes:
    return msgspec.json.encode(durations)


def decode(text: bytes) -> Durations:
    """`msgspec.ValidationError` when it is something else."""
    return msgspec.json.decode(text, type=Durations)


def _key(kind: str, class_name: str) -> str:
    return f"{kind}{_SEPARATOR}{class_name}"
