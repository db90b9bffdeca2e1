"""Telemetry of the demo fleet's services with faults put into it, each with its label.

Used by `dure bench watch`. The load is that of the demo world itself (`adapters.memory.serving.rate_at`) with bursts
that are nobody's fault; the laws from load to power, heat, clock, memory and latency are written down below. Faults
are drawn from seven kinds, mild to strong; some lie in the first half too, unlabelled, as in any real past.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dure.adapters.memory.serving import rate_at
from dure.model.workload import Workload
from dure.watch.anomaly import Watched

Array = NDArray[np.float64]
STEP_S = 300.0
METRICS = ("load", "sm_active", "power_w", "temperature_c", "clock_mhz", "memory_ratio", "latency_ms")
KINDS = ("throttle", "interference", "bandwidth", "stall", "leak", "fan", "stuck")
# Where a runbook would put its fixed thresholds: (metric, limit, above).
RUNBOOK = (
    ("sm_active", 0.90, True),
    ("temperature_c", 83.0, True),
    ("memory_ratio", 0.92, True),
    ("latency_ms", 1.0, True),
    ("clock_mhz", 1200.0, False),
)


class Fault(NamedTuple):
    thing: str
    kind: str
    strength: float
    begin: int
    end: int


class Telemetry(NamedTuple):
    """`limits` is the latency target of each thing; labels are the faults of the second half."""

    times: Array
    values: Array
    watched: tuple[Watched, ...]
    faults: tuple[Fault, ...]
    limits: dict[str, float]


def telemetry(services: tuple[Workload, ...], seed: int, days: int, faults: int) -> Telemetry:
    """`days` of telemetry of every replica of the standing services, every five minutes."""
    rng = np.random.default_rng([seed, days, faults])
    steps = int(days * 86_400 / STEP_S)
    times: Array = 1_767_571_200.0 + np.arange(steps, dtype=np.float64) * STEP_S
    things, columns, limits = [], [], {}
    for service in services:
        demand = _demand(service, times, seed, rng)
        for replica in range(min(4, service.replicas.min)):
            thing = f"{service.name}-{replica}"
            limits[thing] = service.slo.latency_p95_ms or 400.0
            things.append(thing)
            columns.append(_laws(demand, limits[thing], rng))
    labels = _inject(things, columns, faults, rng)
    watched = tuple(
        Watched(f"{thing}/{metric}", thing, () if metric == "load" else (f"{thing}/load",), tested=metric != "load")
        for thing in things
        for metric in METRICS
    )
    half = steps // 2
    return Telemetry(
        times, np.concatenate(columns, axis=1), watched, tuple(one for one in labels if one.begin >= half), limits
    )


def _demand(service: Workload, times: Array, seed: int, rng: np.random.Generator) -> Array:
    """Load in parts of what the replicas carry well, with bursts of users that are no fault."""
    rates = np.array([rate_at(service, float(at_s), seed) for at_s in times]) / max(1e-9, service.rate_per_s)
    load = 0.36 * rates
    for _ in range(len(times) // 500):
        begin, length = int(rng.integers(0, len(times))), int(rng.integers(4, 30))
        load[begin : begin + length] *= rng.uniform(1.25, 1.75)
    return np.clip(load * (1 + 0.03 * _rough(len(times), 0.7, rng)), 0.01, 0.93)


def _laws(demand: Array, target_ms: float, rng: np.random.Generator) -> Array:
    """One device: what it shows at this load. Noise has memory and heavy tails, as counters do."""
    size = len(demand)
    load = np.clip(demand * (1 + 0.02 * _rough(size, 0.3, rng)), 0.005, 0.97)
    noise = [_rough(size, 0.4, rng) for _ in METRICS]
    sm = np.clip(0.08 + 0.85 * load + 0.012 * noise[1], 0, 1)
    power = 70 + 260 * sm**0.9 + 4 * noise[2]
    heat = 34 + 0.115 * _lagged(power, 0.55) + 0.6 * noise[3]
    clock = 1740 - 120 * sm**2 + 9 * noise[4]
    memory = np.clip(0.62 + 0.18 * load + 0.006 * noise[5], 0, 0.99)
    latency = target_ms * 0.22 * (1 + 1.1 * load**2 / (1.05 - load)) * np.exp(0.035 * noise[6])
    return np.stack([load, sm, power, heat, clock, memory, latency], axis=1)


def _inject(things: list[str], columns: list[Array], count: int, rng: np.random.Generator) -> list[Fault]:
    """So many faults in the second half, a fifth as many in the first; never two at once on one thing."""
    steps, made = len(columns[0]), list[Fault]()
    for number in range(count + count // 5):
        late = number < count
        low, high = (steps // 2 + 12, steps - 60) if late else (12, steps // 2 - 60)
        for _ in range(50):
            index, begin = int(rng.integers(0, len(things))), int(rng.integers(low, high))
            end = begin + int(rng.integers(6, 48))
            if all(one.thing != things[index] or end + 24 < one.begin or one.end + 24 < begin for one in made):
                break
        else:
            continue
        fault = Fault(things[index], KINDS[number % len(KINDS)], float(rng.uniform(0.35, 1.0)), begin, end)
        _break(columns[index], fault)
        made.append(fault)
    return made


def _break(column: Array, fault: Fault) -> None:
    """What a fault does to the device's figures between its begin and its end."""
    part, strong = column[fault.begin : fault.end], fault.strength
    ramp = np.linspace(0, 1, len(part))
    _, sm, power, heat, clock, memory, latency = range(7)
    match fault.kind:
        case "throttle":
            part[:, clock] *= 1 - 0.3 * strong
            part[:, latency] *= 1 + 0.4 * strong
            part[:, power] *= 1 - 0.2 * strong
        case "interference":
            part[:, latency] *= 1 + 0.5 * strong
            part[:, sm] = np.minimum(1, part[:, sm] + 0.06 * strong)
        case "bandwidth":
            part[:, latency] *= 1 + 0.35 * strong
            part[:, power] += 12 * strong
        case "stall":
            part[:, sm] = 0.97
            part[:, power] *= 1 - 0.35 * strong
            part[:, latency] *= 1 + 2 * strong
        case "leak":
            part[:, memory] = np.minimum(0.995, part[:, memory] + 0.16 * strong * ramp)
        case "fan":
            part[:, heat] += 14 * strong * np.minimum(1, 3 * ramp)
        case _:
            part[:, 1:] = part[0, 1:]


def _rough(size: int, memory: float, rng: np.random.Generator) -> Array:
    """Noise with unit spread that remembers; tails as of a t distribution with five degrees."""
    shocks = rng.standard_t(5, size) * np.sqrt(3 / 5) * np.sqrt(1 - memory**2)
    made = np.empty(size)
    level = 0.0
    for index, shock in enumerate(shocks):
        level = memory * level + shock
        made[index] = level
    return made


def _lagged(values: Array, memory: float) -> Array:
    made, level = np.empty(len(values)), values[0]
    for index, value in enumerate(values):
        level = memory * level + (1 - memory) * value
        made[index] = level
    return made
