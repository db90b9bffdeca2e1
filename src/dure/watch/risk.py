"""Whether a serving's promise will be broken soon, said before it is.

Two things are learnt from what was counted: how the late share grows with the load of a replica (isotonic means of
load bins, extended along their last slope), and how the load will go (what earlier days did from this minute on,
else its trend). Errors of past forecasts give the spread; the risk is the part of them at which the promise would
be broken. Three layers meet here: `slowness` from hardware counters (a throttled device carries less), requests and
replicas from software, `strictness` from what people said (their target moved). Called by the plane once a minute
for each serving; the burst and the metrics use the answer. Pure; O(days) for each question.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from dure.model.units import DAY_S, Instant, Seconds

SLOT_S: Seconds = 300.0


class RiskSettings(msgspec.Struct, frozen=True):
    """`horizon_s` is how long a new replica takes until it answers; the peak of `span_s` from there on counts."""

    horizon_s: Seconds = 300.0
    span_s: Seconds = 900.0
    days: int = 7
    trend_s: Seconds = 900.0
    damp: float = 0.5
    bin_width: float = 0.08
    least_errors: int = 12
    keep_errors: int = 288
    forget: float = 0.97


class Foreseen(msgspec.Struct, frozen=True):
    """At the horizon: requests per second, the late share with as many replicas as now, and the risk (0 to 1)."""

    rate_per_s: float
    late: float
    risk: float


class _Bin(NamedTuple):
    weight: float
    late: float


class _Curve(NamedTuple):
    """Loads (as bins) in order, and the late share at each; at the last one its log odds and how they go on."""

    bins: list[float]
    lates: list[float]
    odds: float
    slope: float


# Until own errors are known: a forecast may be a tenth off either way.
_USUAL_ERRORS = (-0.1, -0.05, 0.0, 0.05, 0.1)
_FLOOR = 1e-4
# How far above the highest load that was seen the learnt curve is believed.
_BELIEVED = 1.25
# Each halves what is not known of a limit: after so many it is far below what a bin tells apart.
_HALVINGS = 12
# How many of the recent days are asked for what this time of day brings.
_SEASONS = 3


class RiskBook:
    """What is known of one serving. Mutable, but a pure function of what was fed to it, in order of time."""

    def __init__(self, settings: RiskSettings = RiskSettings()) -> None:  # noqa: B008  # frozen, so it may be shared
        self._s = settings
        self._recent: list[tuple[Instant, float]] = []
        self._days: dict[int, dict[int, float]] = {}
        self._bins: dict[int, _Bin] = {}
        self._curve: _Curve | None = None
        self._made: list[tuple[Instant, float]] = []
        self._errors: list[float] = []
        self._ranked: list[float] = []
        """The same errors by size, kept in order as they come and go."""

    def feed(self, at_s: Instant, rate_per_s: float, late: float, ready: int, slowness: float = 1.0) -> None:
        """What was counted up to `at_s`: requests per second, the part that was late, replicas that answered."""
        while self._recent and self._recent[0][0] <= at_s - self._s.trend_s:
            del self._recent[0]
        self._recent.append((at_s, rate_per_s))
        day, slot = int(at_s // DAY_S), int(at_s % DAY_S // SLOT_S)
        if day not in self._days:
            self._days = {one: kept for one, kept in self._days.items() if one >= day - self._s.days} | {day: {}}
        slots = self._days[day]
        slots[slot] = max(slots.get(slot, 0.0), rate_per_s)
        if ready > 0 and rate_per_s > 0.0:
            self._learn(rate_per_s * slowness / ready, late)
        self._score(at_s, rate_per_s)

    def foresee(
        self, now_s: Instant, ready: int, allowed: float, slowness: float = 1.0, strictness: float = 1.0
    ) -> Foreseen | None:
        """None while too little is known. `strictness` above 1 is a target that people tightened."""
        if len(self._recent) < 3 or ready <= 0:
            return None
        rate = self._forecast(now_s)
        self._made.append((now_s + self._s.horizon_s, rate))
        load = rate * slowness * strictness / ready
        errors: Sequence[float] = self._ranked if len(self._ranked) >= self._s.least_errors else _USUAL_ERRORS
        # The late share never falls with the load: of the sorted errors the first that breaks the promise is enough,
        # and mostly not even the last does.
        kept = len(errors)
        if self.late_at(load * (1.0 + errors[-1])) > allowed:
            kept = bisect_left(errors, True, key=lambda error: self.late_at(load * (1.0 + error)) > allowed)
        return Foreseen(rate, self.late_at(load), (len(errors) - kept) / len(errors))

    def replicas(self, rate_per_s: float, allowed: float, most: int, slowness: float = 1.0) -> int:
        """The smallest number with which no more than `allowed` would be late; `most` if none is enough."""
        fitting = (n for n in range(1, most) if self.late_at(rate_per_s * slowness / n) <= allowed)
        return next(fitting, most)

    def carries(self, allowed: float, meant: float = 0.0) -> float | None:
        """Requests per second that a replica answers with at most `allowed` late; None before anything was counted.

        Beyond the loads that were seen the curve is a guess: it is believed up to a quarter above the highest of
        them, or up to what a replica is `meant` to carry, whichever is more.
        """
        if not self._bins:
            return None
        width = self._s.bin_width
        low, seen = float(min(self._bins)), float(max(self._bins))
        most = max(seen + math.log(_BELIEVED) / width, math.log(meant) / width if meant > 0.0 else seen)
        curve = self._risen()
        for _ in range(_HALVINGS):
            middle = (low + most) / 2.0
            if _late(curve, middle) <= allowed:
                low = middle
            else:
                most = middle
        return math.exp(low * width)

    def late_at(self, load: float) -> float:
        """The late share at this many requests per second and replica."""
        if load <= 0.0 or not self._bins:
            return 0.0
        return _late(self._risen(), math.log(load) / self._s.bin_width)

    def _risen(self) -> _Curve:
        if self._curve is None:
            self._curve = _rising(self._bins)
        return self._curve

    def _learn(self, load: float, late: float) -> None:
        key = round(math.log(load) / self._s.bin_width)
        weight, mean = self._bins.get(key, _Bin(0.0, 0.0))
        weight *= self._s.forget
        self._bins[key] = _Bin(weight + 1.0, (mean * weight + late) / (weight + 1.0))
        self._curve = None

    def _forecast(self, now_s: Instant) -> float:
        """The highest rate within the span after the horizon."""
        now = self._recent[-1][1]
        ahead = [now_s + self._s.horizon_s + k * SLOT_S for k in range(1 + int(self._s.span_s // SLOT_S))]
        known = (ratio for day in reversed(self._days) if (ratio := self._season(day, now_s, ahead)) is not None)
        # The recent days say most, and the largest of them is the one to be ready for.
        if seasons := tuple(islice(known, _SEASONS)):
            return max(now * max(seasons), now)
        first_s, last_s = self._recent[0][0], self._recent[-1][0]
        if last_s <= first_s:
            return now
        half = (first_s + last_s) / 2
        early = [rate for at_s, rate in self._recent if at_s <= half]
        late = [rate for at_s, rate in self._recent if at_s > half]
        slope = (sum(late) / len(late) - sum(early) / len(early)) / ((last_s - first_s) / 2)
        return max(now, now + self._s.damp * slope * (ahead[-1] - now_s))

    def _season(self, day: int, now_s: Instant, ahead: Sequence[Instant]) -> float | None:
        """How much higher an earlier day went from this time of day on."""
        back_s = now_s - (now_s // DAY_S - day) * DAY_S
        base = self._at(back_s)
        if now_s // DAY_S == day or base is None or base <= 0.0:
            return None
        shift_s = back_s - now_s
        then = [rate for at_s in ahead if (rate := self._at(at_s + shift_s)) is not None]
        return max(then) / base if then else None

    def _at(self, at_s: Instant) -> float | None:
        return self._days.get(int(at_s // DAY_S), {}).get(int(at_s % DAY_S // SLOT_S))

    def _score(self, at_s: Instant, rate_per_s: float) -> None:
        """Forecasts whose span is over, against the highest rate that came."""
        due = None
        while self._made and self._made[0][0] + self._s.span_s <= at_s:
            due = self._made.pop(0)
        if due is not None:
            from_s, said = due
            slots = [from_s + k * SLOT_S for k in range(1 + int(self._s.span_s // SLOT_S))]
            came = max((rate for one in slots if (rate := self._at(one)) is not None), default=rate_per_s)
            self._err(came / said - 1.0 if said > 0.0 else 0.0)

    def _err(self, error: float) -> None:
        if len(self._errors) > self._s.keep_errors:
            gone = self._errors.pop(0)
            del self._ranked[bisect_left(self._ranked, gone)]
        self._errors.append(error)
        insort(self._ranked, error)


def _rising(bins: dict[int, _Bin]) -> _Curve:
    """Never falling: neighbours that would fall are pooled."""
    at = sorted(bins)
    pooled: list[tuple[int, float, float]] = []
    for key in at:
        (weight, late), count = bins[key], 1
        while pooled and pooled[-1][2] > late:
            others, heavy, mean = pooled.pop()
            late = (mean * heavy + late * weight) / (heavy + weight)
            weight += heavy
            count += others
        pooled.append((count, weight, late))
    lates = [late for count, _, late in pooled for _ in range(count)]
    odds = _log_odds(lates[-1])
    slope = max(0.15, (odds - _log_odds(lates[-2])) / (at[-1] - at[-2])) if len(at) > 1 else 0.15
    return _Curve([float(key) for key in at], lates, odds, slope)


def _late(curve: _Curve, at: float) -> float:
    """The late share at a load that is given as a bin, between two of them in proportion."""
    bins, lates, _, _ = curve
    above = bisect_left(bins, at)
    if above == 0:
        return lates[0]
    if above == len(bins):
        return _beyond(curve, at)
    low, low_late = bins[above - 1], lates[above - 1]
    return low_late + (lates[above] - low_late) * (at - low) / (bins[above] - low)


def _beyond(curve: _Curve, at: float) -> float:
    """Past the highest load that was ever seen the log odds go on along their last slope."""
    rising = curve.odds + curve.slope * (at - curve.bins[-1])
    return max(curve.lates[-1], 1.0 / (1.0 + math.exp(-min(30.0, rising))))


def _log_odds(part: float) -> float:
    part = min(max(part, _FLOOR), 1.0 - _FLOOR)
    return math.log(part / (1.0 - part))
