"""Who else might find the faults: thresholds as in a runbook, thresholds at a quantile of the past, a moving z."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dure.bench.watch_fleet import METRICS, RUNBOOK, Telemetry
from dure.watch.anomaly import detect

Array = NDArray[np.float64]
Alarm = tuple[str, int, int]
_PERSIST, _JOIN = 2, 6


def ours(seen: Telemetry) -> list[Alarm]:
    first, step = float(seen.times[0]), float(seen.times[1] - seen.times[0])
    return [
        (one.thing, round((one.since_s - first) / step), round((one.until_s - first) / step))
        for one in detect(seen.times, seen.values, seen.watched)
    ]


def runbook(seen: Telemetry) -> list[Alarm]:
    """The limits that people write down once: 90 % busy, 83 degrees, 92 % of memory, the latency target."""
    flags = np.zeros(seen.values.shape, bool)
    for metric, limit, above in RUNBOOK:
        for column in range(METRICS.index(metric), seen.values.shape[1], len(METRICS)):
            scale = seen.limits[seen.watched[column].thing] if metric == "latency_ms" else 1.0
            values = seen.values[:, column]
            flags[:, column] = values > limit * scale if above else values < limit
    return _alarms(seen, flags)


def quantile(seen: Telemetry) -> list[Alarm]:
    """A fixed limit for each series at the 0.05 and 99.95 % quantiles of its first half."""
    calm = seen.values[: len(seen.times) // 2]
    low, high = np.quantile(calm, 0.0005, axis=0), np.quantile(calm, 0.9995, axis=0)
    return _alarms(seen, (seen.values < low) | (seen.values > high))


def moving_z(seen: Telemetry) -> list[Alarm]:
    """Distance from an exponential mean in its own spread, beyond five."""
    mean, var = seen.values[0].copy(), np.full(seen.values.shape[1], 1e-6)
    flags = np.zeros(seen.values.shape, bool)
    for step, row in enumerate(seen.values):
        off = row - mean
        flags[step] = np.abs(off) > 5 * np.sqrt(var)
        mean, var = mean + 0.05 * off, 0.95 * (var + 0.05 * off**2)
    return _alarms(seen, flags)


RIVALS: dict[str, Callable[[Telemetry], list[Alarm]]] = {
    "dure": ours,
    "static-runbook": runbook,
    "static-quantile": quantile,
    "moving-z": moving_z,
}


def _alarms(seen: Telemetry, flags: NDArray[np.bool_]) -> list[Alarm]:
    """Flags that hold for two steps, joined into stretches for each thing; only the second half counts."""
    half, made = len(seen.times) // 2, list[Alarm]()
    held = flags.copy()
    held[1:] &= flags[:-1]
    held[:half] = False
    for thing in dict.fromkeys(one.thing for one in seen.watched):
        mine = [index for index, one in enumerate(seen.watched) if one.thing == thing]
        begin = last = -1
        for step in np.flatnonzero(held[:, mine].any(axis=1)):
            if begin >= 0 and step - last > _JOIN:
                made.append((thing, begin, last))
                begin = -1
            begin, last = (int(step) if begin < 0 else begin), int(step)
        if begin >= 0:
            made.append((thing, begin, last))
    return made
