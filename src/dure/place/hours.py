"""Prices and carbon summed over any span of time: running integrals with a knot at every full hour.

They are the same for a whole hour and kept that long; every term of the bill that depends on the hour reads them for
all starts at once.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec
import numpy as np

from dure.model.tariff import CarbonSeries, Weekly
from dure.model.units import HOUR_S, Instant, Seconds, hour_of_week
from dure.place.instance import Floats


class Spans(msgspec.Struct, frozen=True):
    """Several spans of one length, in order of time: all begins, then all ends, so that one look finds both."""

    edges: Floats
    count: int
    hours: float


def spans(starts: Floats, length_s: Seconds) -> Spans:
    return Spans(np.concatenate((starts, starts + length_s)), len(starts), max(length_s / HOUR_S, 1e-9))


class Integral(msgspec.Struct, frozen=True):
    """`sums[i]` is the integral (value x hours) from the first knot to knot i."""

    knots: Floats
    sums: Floats

    def over(self, spans: Spans) -> Floats:
        """Value x hours over each span; the last hour's value goes on beyond the knots."""
        sums = self._upto(spans.edges)
        return sums[spans.count :] - sums[: spans.count]

    def _upto(self, at_s: Floats) -> Floats:
        inside = np.interp(at_s, self.knots, self.sums)
        if at_s[-1] <= self.knots[-1]:
            return inside
        rate = self.sums[-1] - self.sums[-2]
        return np.asarray(inside + np.maximum(0.0, at_s - self.knots[-1]) / HOUR_S * rate)


class CarbonIntegral(msgspec.Struct, frozen=True):
    """Known g/kWh x hours, and how many hours are known: an unknown hour is never a zero."""

    known: Integral
    hours: Integral
    complete: bool = False

    def mean(self, spans: Spans, otherwise: float) -> tuple[Floats, Floats]:
        """Mean g/kWh of each span and the share of it that is known; `otherwise` where nothing is."""
        if self.complete and spans.edges[-1] <= self.known.knots[-1]:
            return self.known.over(spans) / spans.hours, constant(1.0, spans.count)
        known_h = self.hours.over(spans)
        mean = np.where(known_h > 1e-9, self.known.over(spans) / np.maximum(known_h, 1e-9), otherwise)
        return mean, np.minimum(1.0, known_h / spans.hours)


@lru_cache(maxsize=1024)
def constant(value: float, count: int) -> Floats:
    """The same number for each start; shared, so nobody may write to it."""
    made = np.full(count, value)
    made.flags.writeable = False
    return made


def weekly_integral(series: Weekly | None, now_s: Instant, hours: int) -> Integral | None:
    return None if series is None else _weekly(series, int(now_s // HOUR_S), hours)


def carbon_integral(series: CarbonSeries | None, now_s: Instant, hours: int) -> CarbonIntegral:
    return _carbon(series, int(now_s // HOUR_S), hours)


@lru_cache(maxsize=256)
def _weekly(series: Weekly, hour: int, hours: int) -> Integral:
    now_s = hour * HOUR_S
    knots = _knots(now_s, hours)
    values = np.array(series.values, np.float64)
    if len(values) == 1:
        return Integral(knots, np.arange(hours + 1) * values[0])
    return Integral(knots, _running(values[(hour_of_week(now_s) + np.arange(hours)) % len(values)]))


@lru_cache(maxsize=64)
def _carbon(series: CarbonSeries | None, hour: int, hours: int) -> CarbonIntegral:
    knots = _knots(hour * HOUR_S, hours)
    values = np.array([series.at(at) if series else None for at in knots[:-1]], np.float64)
    unknown = np.isnan(values)
    return CarbonIntegral(
        Integral(knots, _running(np.where(unknown, 0.0, values))),
        Integral(knots, _running(np.where(unknown, 0.0, 1.0))),
        complete=not unknown.any(),
    )


def _knots(now_s: Instant, hours: int) -> Floats:
    return np.asarray((now_s // HOUR_S + np.arange(hours + 1)) * HOUR_S, np.float64)


def _running(values: Floats) -> Floats:
    return np.concatenate([[0.0], np.cumsum(values)])
