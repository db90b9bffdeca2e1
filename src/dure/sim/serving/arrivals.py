"""Request streams for the modelled service, made from recorded hours or recorded rates.

Called by the benchmark and by `dure scale tune` with arrays read from trace files. Same arrays and seed give the
same stream. A recorded hour is never tiled as it is, because that would plant a seasonality that any forecast
finds, nor cut anew, because that would plant jumps that nobody can foresee: it is played forwards and backwards in
turn, each time stretched by another factor, and reshaped by a day curve.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dure.sim.serving.service import Requests

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SPREAD_S = 20.0
STRETCH = (0.8, 1.25)


def from_hour(
    arrival_s: Floats,
    context: Ints,
    output: Ints,
    streams: int,
    copies: float,
    hours: float,
    seed: int,
    swing: float = 0.5,
) -> Requests:
    """`hours` of traffic of a larger service than the recorded one, with a day curve of `swing`.

    `streams` independent crowds, each starting at a place of its own; in a crowd each request comes `copies` times
    on average within `SPREAD_S` of the original, so that it keeps its swings over minutes but does not arrive in the
    same second.
    """
    rng = np.random.default_rng(seed)
    start_s = rng.uniform(0.0, 24.0) * 3600.0
    horizon = hours * 3600.0
    pieces: list[tuple[Floats, Ints]] = []
    for _ in range(streams):
        for at, rows, stretch in _passes(arrival_s - arrival_s[0], horizon, rng):
            count = rng.poisson(copies * stretch * _day(at + start_s, swing))
            index = np.repeat(np.arange(len(at)), count)
            pieces.append((at[index] + rng.normal(0.0, SPREAD_S, len(index)), rows[index]))
    times = np.concatenate([piece[0] for piece in pieces])
    index = np.concatenate([piece[1] for piece in pieces])
    return _sorted(times, context[index], output[index], horizon)


def _passes(recorded: Floats, horizon: float, rng: np.random.Generator) -> Iterator[tuple[Floats, Ints, float]]:
    """The recording to and fro until the horizon: (times, rows of the recording, stretch of this pass)."""
    span = float(recorded[-1]) + 1.0
    begin = -rng.uniform(0.0, span)
    forwards = bool(rng.uniform() < 0.5)
    while begin < horizon:
        stretch = float(rng.uniform(*STRETCH))
        at = recorded if forwards else span - recorded
        yield begin + at * stretch, np.arange(len(recorded)), stretch
        begin += span * stretch
        forwards = not forwards


def from_rates(per_second: Floats, context: Ints, output: Ints, rate: float, seed: int) -> Requests:
    """Arrivals that follow a recorded rate per second, scaled to mean `rate`; lengths drawn from a recording."""
    rng = np.random.default_rng(seed)
    scale = rate / max(float(per_second.mean()), 1e-9)
    counts = rng.poisson(per_second * scale)
    times = np.repeat(np.arange(len(per_second), dtype=np.float64), counts) + rng.uniform(0.0, 1.0, int(counts.sum()))
    index = rng.integers(0, len(context), len(times))
    return _sorted(times, context[index], output[index], float(len(per_second)))


def _day(at_s: Floats, swing: float) -> Floats:
    """A smooth day: quiet at four, busy at sixteen o'clock, mean one."""
    return 1.0 + swing * np.sin(2.0 * np.pi * (at_s / 86_400.0 - 10.0 / 24.0))


def _sorted(times: Floats, context: Ints, output: Ints, horizon: float) -> Requests:
    keep = (times >= 0.0) & (times < horizon)
    times, context, output = times[keep], context[keep], output[keep]
    order = np.argsort(times, kind="stable")
    return Requests(times[order], context[order].astype(np.int64), output[order].astype(np.int64), horizon)
