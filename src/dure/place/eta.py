"""When will it start, when will it end: the queue played forward in many samples, ranges as wide as earlier errors.

Called by `plane.etas` for people and by `dure bench eta`. How long everybody takes is drawn from `lifetime`, what
that means for those who wait from `queue_play`, how wide the ranges must be from `calibrate`. Same input and seed,
same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from dure.model.eta import Eta, Range, Spread
from dure.model.units import Instant, Seconds
from dure.place.calibrate import Regimes, Said
from dure.place.lifetime import OF_ALL, Floats, LifeTables, life_tables, sampled
from dure.place.queue_play import play
from dure.place.trust import Past, Trust, trust_in

SAMPLES = 64
_POINTS = (0.05, 0.5, 0.95)


class Book(msgspec.Struct, frozen=True):
    """What came of each kind of forecast."""

    start: Regimes
    finish: Regimes
    running: Regimes


def fresh_book() -> Book:
    return Book(Regimes(), Regimes(), Regimes())


class Going(msgspec.Struct, frozen=True):
    """A running workload: `estimate_s` in all, `used_s` so far, the devices that it holds; a serving never ends."""

    name: str
    estimate_s: Seconds
    used_s: Seconds
    devices: int
    pool: str = ""
    group: str = ""
    ends: bool = True


class Coming(msgspec.Struct, frozen=True):
    """A waiting one, in the order of the queue, with the pools that could take it."""

    name: str
    estimate_s: Seconds
    devices: int
    pools: tuple[str, ...] = ("",)
    group: str = ""
    ends: bool = True
    not_before_s: Instant = 0.0


class Situation(msgspec.Struct, frozen=True):
    """All who run or wait. `capacity` is the devices of each pool, free or not; `strict`: nobody passes the first."""

    running: Sequence[Going]
    waiting: Sequence[Coming]
    capacity: dict[str, int]
    now_s: Instant
    strict: bool = False


class Outlook(NamedTuple):
    """Of one workload, before its ranges are widened; None is never."""

    start: Spread | None
    finish: Spread | None


class Learned(NamedTuple):
    """How far estimates are trusted, and how long work takes against them."""

    trust: Trust
    tables: LifeTables


def etas(situation: Situation, ended: Sequence[Past], book: Book, seed: int = 0) -> dict[str, Eta]:
    """Start and finish of all who run or wait; nothing for what fits nowhere."""
    return ranged(situation, outlooks(situation, ended, seed), book)


def said_of(outlook: Outlook, now_s: Instant, book: Book, *, waits: bool) -> tuple[Said | None, Said | None]:
    """Start and finish of one as forecasts that an outcome can be held against."""
    start, finish = outlook
    ends = book.finish if waits else book.running
    return (
        Said(now_s, start, book.start.around(start, now_s)) if start else None,
        Said(now_s, finish, ends.around(finish, now_s)) if finish else None,
    )


def ranged(situation: Situation, found: dict[str, Outlook], book: Book) -> dict[str, Eta]:
    """Outlooks as ranges that hold as often as they say."""
    now_s = situation.now_s
    answer: dict[str, Eta] = {}
    for going in situation.running:
        begun, finish = Range(*(now_s - going.used_s,) * 5), found[going.name].finish
        answer[going.name] = Eta(begun, book.running.around(finish, now_s) if finish else None)
    for coming in situation.waiting:
        start, finish = found[coming.name]
        if start is not None:
            answer[coming.name] = Eta(
                book.start.around(start, now_s), book.finish.around(finish, now_s) if finish else None
            )
    return answer


def outlooks(
    situation: Situation, ended: Sequence[Past], seed: int = 0, samples: int = SAMPLES
) -> dict[str, Outlook]:
    """What the samples of the future say of each."""
    return foreseen(situation, learned(situation, ended), seed, samples)


def learned(situation: Situation, ended: Sequence[Past]) -> Learned:
    """How long work of all who run or wait takes, from what ended and from what still runs."""
    trust = trust_in(ended)
    going = [
        Past(one.group, one.used_s / trust.corrected(one.group, one.estimate_s), began_s=situation.now_s - one.used_s)
        for one in situation.running
        if one.ends
    ]
    groups = [*(one.group for one in situation.running), *(one.group for one in situation.waiting)]
    return Learned(trust, life_tables(groups, [trust.held_against(one) for one in ended], going))


def foreseen(situation: Situation, known: Learned, seed: int = 0, samples: int = SAMPLES) -> dict[str, Outlook]:
    """The same with what was learned, perhaps a little earlier; a group that is new since then is as all are."""
    running, waiting, now_s = situation.running, situation.waiting, situation.now_s
    whom: list[Going | Coming] = [*running, *waiting]
    trust, tables = known
    estimates = np.array([trust.corrected(one.group, one.estimate_s) for one in whom])
    used = np.array([*(one.used_s for one in running), *(0.0 for _ in waiting)])
    draw = np.random.default_rng([seed, len(running), len(waiting)])
    spans = _drawn(tables, whom, used / estimates, samples, draw) * estimates
    ends, lasts = now_s + spans[:, : len(running)] - used[: len(running)], spans[:, len(running) :]
    starts = np.maximum(_starts(situation, ends, lasts), np.array([one.not_before_s for one in waiting]))
    answer = {one.name: Outlook(None, spread) for one, spread in zip(running, _spreads(ends), strict=True)}
    both = zip(waiting, _spreads(starts), _spreads(starts + lasts), strict=True)
    return answer | {one.name: Outlook(start, finish) for one, start, finish in both}


def _drawn(
    tables: LifeTables, whom: Sequence[Going | Coming], used: Floats, samples: int, draw: np.random.Generator
) -> Floats:  # fmt: skip
    """`[sample, workload]` over the estimate, in all; endless for what never ends. Who began first comes first."""
    found = np.full((samples, len(whom)), np.inf)
    by_group: dict[str, list[int]] = {}
    for index in np.argsort(-used, kind="stable").tolist():
        if whom[index].ends:
            by_group.setdefault(whom[index].group, []).append(index)
    for group, mine in sorted(by_group.items()):
        tolls = tables.alike.tolls(samples, len(mine), draw)
        found[:, mine] = sampled(tables, tables.number.get(group, OF_ALL), used[mine], tolls)
    return found


def _starts(situation: Situation, ends: Floats, lasts: Floats) -> Floats:
    running, waiting = situation.running, situation.waiting
    number = {pool: index for index, pool in enumerate(situation.capacity)}
    free = np.array(list(situation.capacity.values()), np.int64)
    for one in running:
        if one.pool in number:
            free[number[one.pool]] -= one.devices
    known = [index for index, one in enumerate(running) if one.pool in number]
    widest = max((len(one.pools) for one in waiting), default=1)
    pools = np.full((len(waiting), max(1, widest)), -1, np.int64)
    for row, coming in enumerate(waiting):
        possible = [number[pool] for pool in coming.pools if pool in number]
        pools[row, : len(possible)] = possible
    held = np.array([running[index].devices for index in known], np.int64)
    where = np.array([number[running[index].pool] for index in known], np.int64)
    need = np.array([one.devices for one in waiting], np.int64)
    return play(ends[:, known], held, where, lasts, need, pools, free, situation.now_s, strict=situation.strict)


def _spreads(values: Floats) -> list[Spread | None]:
    """Of each column; None where the middle never comes."""
    if not values.shape[1]:
        return []
    ordered = np.sort(values, axis=0)
    low, middle, high = (ordered[round(point * (len(ordered) - 1))] for point in _POINTS)
    return [
        Spread(float(a), float(b), float(c if np.isfinite(c) else b)) if np.isfinite(b) else None
        for a, b, c in zip(low, middle, high, strict=True)
    ]
