"""From kept samples to what the detectors take: series on one grid of steps, each with what explains it.

The API calls `looked` with a function that fetches a metric's samples. Requests explain how many are in time; the
rent of its pools explains what a cluster costs; how busy a device is explains its power, heat and clock. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dure.model.sample import Sample
from dure.model.units import Instant, Seconds
from dure.watch.anomaly import Watched
from dure.watch.burn import Count
from dure.watch.history import CLUSTER_COST, GOOD, POOL_DEVICES, POOL_PRICE, REQUESTS

Array = NDArray[np.float64]
Fetch = Callable[[str], Iterable[Sample]]
# Figures of a device, and which of them says how busy it is.
BUSY = "dure_device_busy_ratio"
DEVICE = (
    "dure_device_power_watts",
    "dure_device_temperature_celsius",
    "dure_device_sm_clock_hertz",
    "dure_device_memory_used_bytes",
)


class Looked(NamedTuple):
    times: Array
    values: Array
    watched: tuple[Watched, ...]


def looked(fetch: Fetch, since_s: Instant, until_s: Instant, step_s: Seconds) -> Looked:
    """Every series that is watched, steps x series. What has no sample in a step is a gap."""
    steps = max(0, int((until_s - since_s) // step_s))
    times = since_s + np.arange(steps, dtype=np.float64) * step_s

    def grid(name: str, labels: Sequence[str]) -> dict[str, Array]:
        return gridded(fetch(name), labels, since_s, steps, step_s)

    columns: list[tuple[Watched, Array]] = []
    asked, good = grid(REQUESTS, ("workload",)), grid(GOOD, ("workload",))
    for name in sorted(asked.keys() & good.keys()):
        rate, share = _rates(asked[name], good[name], step_s)
        columns.append((Watched(f"{name}/requests", name, tested=False), rate))
        columns.append((Watched(f"{name}/in time", name, (f"{name}/requests",), least=0.02), share))
    columns += _rents(grid)
    pools = [one.name for one, _ in columns if one.name.endswith("/rent")]
    for name, values in sorted(grid(CLUSTER_COST, ("cluster",)).items()):
        drivers = tuple(pool for pool in pools if pool.startswith(f"{name}/"))
        columns.append((Watched(f"{name}/cost", name, drivers, least_part=0.05), values))
    columns += _devices(grid)
    if not columns:
        return Looked(times, np.empty((steps, 0)), ())
    return Looked(times, np.stack([values for _, values in columns], axis=1), tuple(one for one, _ in columns))


def _rents(grid: Callable[[str, Sequence[str]], Mapping[str, Array]]) -> list[tuple[Watched, Array]]:
    """What a pool's devices cost by the hour: how many there are times their price. It explains a cluster's cost."""
    where = ("cluster", "pool")
    prices = grid(POOL_PRICE, where)
    return [
        (Watched(f"{name}/rent", name, tested=False), devices * prices[name])
        for name, devices in sorted(grid(POOL_DEVICES, where).items())
        if name in prices
    ]


def _devices(grid: Callable[[str, Sequence[str]], Mapping[str, Array]]) -> list[tuple[Watched, Array]]:
    """Where an exporter shows hardware counters."""
    where = ("cluster", "node", "device")
    busy = grid(BUSY, where)
    found = [(Watched(f"{name}/busy", name, tested=False), values) for name, values in sorted(busy.items())]
    for metric in DEVICE:
        short = metric.removeprefix("dure_device_")
        found += [
            (Watched(f"{name}/{short}", name, (f"{name}/busy",) if name in busy else (), least_part=0.03), values)
            for name, values in sorted(grid(metric, where).items())
        ]
    return found


def gridded(
    samples: Iterable[Sample], labels: Sequence[str], since_s: Instant, steps: int, step_s: Seconds
) -> dict[str, Array]:
    """Means by step for each series, named by its labels joined with a slash."""
    sums: dict[str, tuple[Array, Array]] = {}
    for one in samples:
        index = int((one.at_s - since_s) // step_s)
        if not 0 <= index < steps:
            continue
        name = "/".join(one.labels.get(label, "") for label in labels)
        total, count = sums.setdefault(name, (np.zeros(steps), np.zeros(steps)))
        total[index] += one.value
        count[index] += 1
    return {
        name: np.divide(total, count, out=np.full(steps, np.nan), where=count > 0)
        for name, (total, count) in sums.items()
    }


def counts(asked: Iterable[Sample], good: Iterable[Sample]) -> dict[str, list[Count]]:
    """Cumulative requests and good ones of each service, where both were seen at one moment."""
    kept = {(one.labels.get("workload", ""), one.at_s): one.value for one in good}
    found: dict[str, list[Count]] = {}
    for one in asked:
        name = one.labels.get("workload", "")
        value = kept.get((name, one.at_s))
        if value is not None:
            found.setdefault(name, []).append(Count(one.at_s, one.value, value))
    return {name: sorted(mine) for name, mine in sorted(found.items())}


def uptime(samples: Iterable[Sample]) -> dict[str, list[Count]]:
    """Cumulative seconds and those with a replica ready, of each service; between two looks it was as both say."""
    seen: dict[str, list[tuple[Instant, float]]] = {}
    for one in samples:
        seen.setdefault(one.labels.get("workload", ""), []).append((one.at_s, one.value))
    return {name: _summed(sorted(mine)) for name, mine in sorted(seen.items())}


def _summed(seen: Sequence[tuple[Instant, float]]) -> list[Count]:
    found = [Count(seen[0][0], 0.0, 0.0)]
    for (before_s, before), (after_s, after) in pairwise(seen):
        last, lasted_s = found[-1], after_s - before_s
        found.append(Count(after_s, last.total + lasted_s, last.good + lasted_s * (before + after) / 2))
    return found


def _rates(asked: Array, good: Array, step_s: Seconds) -> tuple[Array, Array]:
    """Requests a second and the part in time; where a counter fell it was restarted, which is a gap."""
    more = np.diff(asked, prepend=np.nan)
    better = np.diff(good, prepend=np.nan)
    fell = (more < 0) | (better < 0)
    more[fell] = better[fell] = np.nan
    share = np.divide(better, more, out=np.full(len(more), np.nan), where=more > 0)
    return np.asarray(more / step_s), np.asarray(np.clip(share, 0.0, 1.0))
