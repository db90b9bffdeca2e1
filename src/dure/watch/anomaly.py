"""What is out of the ordinary in many series at once: condition on load and hour, then test what is left.

A raw detector mostly finds daytime. So each series is first explained (`expect.explained`), its residual divided
by its usual spread, and only then tested, in three ways:
- a single series far off for some steps (robust z),
- a single series a little off for long (moving mean),
- several series of one thing (a device, a service) off together, none of them enough alone (mean of squares).
Limits come from the series' own quiet past and from how many series are watched, so that few alarms are false.
Cost: O(steps x series). The API calls `detect` every few minutes; alarms never move a weight or a device by
themselves: they are for people, and for eq. 3 only by way of the SLO.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from dure.model.units import Instant
from dure.watch.expect import Array, explained

Mask = NDArray[np.bool_]


class Watched(msgspec.Struct, frozen=True):
    """One series: `thing` is what it is about (alarms of one thing are told together), `drivers` explain it.

    One that is not `tested` only explains others: a burst of users is nobody's fault. What is off by less than
    `least`, or by less than `least_part` of what was expected, does not matter to anybody.
    """

    name: str
    thing: str
    drivers: tuple[str, ...] = ()
    tested: bool = True
    least: float = 0.0
    least_part: float = 0.0


class DetectSettings(msgspec.Struct, frozen=True):
    """`false_per_week` is how many false alarms of all series together are bearable."""

    season: int = 288
    calibration: float = 0.5
    steps_per_week: int = 2016
    false_per_week: float = 0.5
    persist: int = 3
    long: int = 18
    tails: float = 2.2
    join: int = 6


DEFAULT = DetectSettings()


class Anomaly(msgspec.Struct, frozen=True):
    """From `since_s` to `until_s` `thing` did not behave: `series` is the one furthest off, with both numbers."""

    thing: str
    series: str
    since_s: Instant
    until_s: Instant
    score: float
    value: float
    expected: float
    kind: str
    evidence: str


def detect(
    times: Array, values: Array, watched: Sequence[Watched], settings: DetectSettings = DEFAULT
) -> tuple[Anomaly, ...]:
    """Anomalies after the calibration part, oldest first. `values` is steps x series; NaN is a gap."""
    steps = len(times)
    quiet = max(2, int(steps * settings.calibration))
    # Who has not seen one whole day would take every evening for a fault.
    if quiet < settings.season or not watched:
        return ()
    expected, residuals, doubt = explained(values, watched, quiet, settings.season)
    scores = _scores(residuals, quiet) / doubt
    scores[:, [not one.tested for one in watched]] = 0.0
    scores[np.abs(values - expected) < _least(expected, watched)] = 0.0
    alarms = _single(scores, quiet, settings) | _creeping(scores, quiet, settings)
    alarms[:quiet] = False
    things = sorted({one.thing for one in watched if one.tested})
    found: list[Anomaly] = []
    for thing in things:
        mine = [index for index, one in enumerate(watched) if one.thing == thing and one.tested]
        joint = _joint(scores[:, mine], quiet, settings)
        joint[:quiet] = False
        for begin, end in _runs(alarms[:, mine].any(axis=1) | joint, settings.join):
            found.append(_told(thing, mine, (begin, end), alarms, (times, values, expected, scores), watched))
    return tuple(sorted(found, key=lambda one: (one.since_s, one.thing)))


def _least(expected: Array, watched: Sequence[Watched]) -> Array:
    least = np.array([one.least for one in watched])
    parts = np.array([one.least_part for one in watched])
    return np.asarray(np.maximum(least, parts * np.abs(expected)))


def _scores(residuals: Array, quiet: int) -> Array:
    """Residuals in units of the quiet past's spread, never taken as smaller than a part of their deviation."""
    calm = residuals[:quiet]
    centre = np.nanmedian(calm, axis=0)
    spread = 1.4826 * np.nanmedian(np.abs(calm - centre), axis=0)
    broad = np.nanstd(calm, axis=0)
    floor = np.maximum(0.2 * broad, 1e-9 + 1e-6 * np.abs(centre))
    return np.asarray((residuals - centre) / np.maximum(spread, floor))


def _single(scores: Array, quiet: int, settings: DetectSettings) -> Mask:
    """Far off at `persist` steps running, farther than the quiet past ever was by a margin."""
    steady = _steady(np.abs(np.nan_to_num(scores)), settings.persist)
    return steady > _limit(steady[:quiet], 4.5, settings, scores.shape[1])


def _creeping(scores: Array, quiet: int, settings: DetectSettings) -> Mask:
    """A little off, but for long: the mean of the last `long` steps in units of its own spread when all was quiet.

    Clipped before, so that a few wild steps do not make a long mean; the spread knows how much the noise remembers.
    """
    clipped = np.clip(np.nan_to_num(scores), -5, 5)
    added = np.cumsum(np.vstack([np.zeros((1, clipped.shape[1])), clipped]), axis=0)
    means = np.zeros_like(clipped)
    means[settings.long - 1 :] = (added[settings.long :] - added[: -settings.long]) / settings.long
    calm = means[settings.long : quiet]
    centre = np.median(calm, axis=0)
    spread = np.maximum(1.4826 * np.median(np.abs(calm - centre), axis=0), 1e-9)
    steady = _steady(np.abs(means - centre) / spread, settings.persist)
    return steady > _limit(steady[settings.long : quiet], 6.0, settings, scores.shape[1])


def _joint(scores: Array, quiet: int, settings: DetectSettings) -> Mask:
    """The mean of squares over one thing's series, each clipped so that none of them does it alone."""
    if scores.shape[1] < 2:
        return np.zeros(len(scores), bool)
    together = np.clip(np.nan_to_num(scores) ** 2, 0, 25).mean(axis=1)
    steady = _steady(together[:, None], settings.persist)
    return np.asarray((steady > _limit(steady[:quiet], 6.0, settings, 1))[:, 0])


def _limit(calm: Array, floor: float, settings: DetectSettings, series: int) -> Array:
    """Where Gaussian noise gives the bearable number of false alarms; further out where the past has heavy tails.

    A quantile of that past, not its largest value: there were faults in it too.
    """
    share = min(0.5, settings.false_per_week / settings.steps_per_week / max(1, series))
    gauss = math.sqrt(2 * math.log(1 / share))
    return np.asarray(np.maximum(max(floor, gauss), settings.tails * np.quantile(calm, 0.97, axis=0)))


def _steady(scores: Array, persist: int) -> Array:
    """The smallest of the last `persist` scores: one wild step is no alarm."""
    held = scores.copy()
    for back in range(1, persist):
        held[back:] = np.minimum(held[back:], scores[:-back])
        held[:back] = 0.0
    return held


def _runs(flags: Mask, join: int) -> list[tuple[int, int]]:
    """Stretches of alarm; gaps up to `join` steps are part of one."""
    runs: list[tuple[int, int]] = []
    for step in np.flatnonzero(flags):
        if runs and step - runs[-1][1] <= join:
            runs[-1] = (runs[-1][0], int(step))
        else:
            runs.append((int(step), int(step)))
    return runs


def _told(
    thing: str,
    mine: Sequence[int],
    run: tuple[int, int],
    alarms: Mask,
    seen: tuple[Array, Array, Array, Array],
    watched: Sequence[Watched],
) -> Anomaly:
    times, values, expected, scores = seen
    begin, end = run
    window = np.abs(np.nan_to_num(scores[begin : end + 1][:, mine]))
    step, place = np.unravel_index(int(window.argmax()), window.shape)
    at, worst = begin + int(step), mine[int(place)]
    alone = bool(alarms[begin : end + 1][:, mine].any())
    kind = "single" if alone else "together"
    score, value, usual = float(scores[at, worst]), float(values[at, worst]), float(expected[at, worst])
    side = "above" if score > 0 else "below"
    drivers = watched[worst].drivers
    why = f"hour and {', '.join(drivers)} explain" if drivers else "the hour explains"
    others = sum(float(window[:, index].max()) > 3.0 for index in range(len(mine))) - 1
    more = f"; {others} more of its series are off" if others > 0 else ""
    evidence = (
        f"{watched[worst].name} is {abs(score):.1f} spreads {side} what {why} ({value:.4g}, not {usual:.4g}){more}"
    )
    return Anomaly(
        thing, watched[worst].name, float(times[begin]), float(times[end]), abs(score), value, usual, kind, evidence
    )
