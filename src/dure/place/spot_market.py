"""Spot pools as one market: what the spells of their nodes say of how soon spot is lost and how soon it is back.

Called by `spot_rule` for the plane and by `dure bench spot` for recorded zones, so that both ask `spot.choose` the
same question. A pool is up while it has a node, and down from a loss that left it none until the next node comes. A
spell up is that of a node, so a pool of many nodes learns from each. Of all pools together the market is up while any
is; where the workload runs, or would, says how soon it is lost, and how often another pool was up at the moment of a
loss says what a loss means. O(spells), once for each change of them.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec

from dure.model.spell import PoolSpells
from dure.model.units import DAY_S, HOUR_S, Instant, Seconds
from dure.place.spot import Seen
from dure.place.spot_days import Days, days_of

# How much of a pool's past counts when a workload begins, at most.
PAST_S: Seconds = 7.0 * DAY_S
_PRIOR = Seen()
_GRAIN_S = _PRIOR.grain_h * HOUR_S


class Span(msgspec.Struct, frozen=True):
    """A spell within the past that counts; `end_s` is infinite while it lasts."""

    begin_s: Instant
    end_s: Instant
    lost: bool = False

    def aged(self, since_s: Instant, until_s: Instant) -> float:
        """E-folds of age gathered between two moments."""
        begin_s, end_s = max(self.begin_s, since_s), min(self.end_s, until_s)
        if end_s <= begin_s:
            return 0.0
        return math.log((end_s - self.begin_s + _GRAIN_S) / (begin_s - self.begin_s + _GRAIN_S))


class History(msgspec.Struct, frozen=True, eq=False):
    """A pool's past as of its last change. Two are never equal: what is worked out of one is kept with it."""

    began_s: Instant
    ups: tuple[Span, ...]
    downs: tuple[Span, ...]
    present: tuple[Span, ...]
    gathered_up: float
    gathered_down: float
    losses: int
    returns: int
    days: tuple[tuple[float, float], ...]
    covered: tuple[Span, ...]
    """When it had any node: spans that neither touch nor overlap."""

    @property
    def down(self) -> bool:
        return bool(self.downs) and self.downs[-1].end_s == math.inf

    def seen(self, now_s: Instant, up: bool) -> Seen:
        """What is known of it now; `up` says whether there is anything to be had in it for who asks."""
        aged = sum(span.aged(span.begin_s, now_s) for span in self.present)
        waited = self.downs[-1].aged(self.downs[-1].begin_s, now_s) if self.down else 0.0
        return Seen(
            up=_PRIOR.up + self.gathered_up + aged,
            down=_PRIOR.down + self.gathered_down + waited,
            losses=_PRIOR.losses + self.losses,
            returns=_PRIOR.returns + self.returns,
            age_h=self._age_s(now_s, up) / HOUR_S,
        )

    def since_began(self, now_s: Instant) -> tuple[int, float]:
        """Losses and age gathered since the workload began."""
        lost = sum(span.lost and span.end_s > self.began_s for span in self.ups)
        return lost, sum(span.aged(self.began_s, now_s) for span in self.ups)

    def up_at(self, at_s: Instant) -> bool:
        found = bisect_right(self.covered, at_s, key=lambda span: span.begin_s) - 1
        return found >= 0 and at_s < self.covered[found].end_s

    def _age_s(self, now_s: Instant, up: bool) -> Seconds:
        if up:
            # Where a node will be launched first, it is as young as can be.
            return sum(now_s - span.begin_s for span in self.present) / max(1, len(self.present))
        return now_s - self.downs[-1].begin_s if self.down else 0.0


@lru_cache(maxsize=1024)
def history(watched: PoolSpells, began_s: Instant) -> History:
    """The past of a pool for a workload that began then: so much of it as counts, and everything since."""
    from_s = max(watched.since_s, began_s - PAST_S)
    ups = tuple(
        Span(max(from_s, spell.begin_s), math.inf if spell.end_s is None else spell.end_s, spell.lost)
        for spell in watched.spells
        if spell.end_s is None or spell.end_s > from_s
    )
    covered, downs = _turns(ups, from_s, down=not watched.asks)
    whole_days = max(0, int((began_s - from_s) // DAY_S))
    ended = [span for span in ups if span.end_s < math.inf]
    back = [span for span in downs if span.end_s < math.inf]
    return History(
        began_s=began_s,
        ups=ups,
        downs=downs,
        present=tuple(span for span in ups if span.end_s == math.inf),
        gathered_up=sum(span.aged(span.begin_s, span.end_s) for span in ended),
        gathered_down=sum(span.aged(span.begin_s, span.end_s) for span in back),
        losses=sum(span.lost for span in ended),
        returns=len(back),
        days=tuple(_gathered(ups, from_s + day * DAY_S, from_s + (day + 1) * DAY_S) for day in range(whole_days)),
        covered=covered,
    )


def market(pools: Sequence[History], up: Sequence[bool], at: int, now_s: Instant) -> Seen:
    """All pools as one, for a workload that runs or would be launched `at` one of them (-1: at none that is `up`)."""
    seen = [pool.seen(now_s, is_up) for pool, is_up in zip(pools, up, strict=True)]
    if len(pools) == 1:
        return msgspec.structs.replace(seen[0], elsewhere=_elsewhere(tuple(pools)))
    down = [one for one, is_up in zip(seen, up, strict=True) if not is_up]
    age_h = 0.0 if at >= 0 else min(one.age_h for one in down)
    back = sum(one.back for one in seen) - sum(one.back * _faded(one, age_h) for one in down)
    since = [pool.since_began(now_s) for pool in pools]
    losses, aged = sum(one[0] for one in since), sum(one[1] for one in since)
    return msgspec.structs.replace(
        seen[max(at, 0)],
        down=1.0,
        returns=back,
        elsewhere=_elsewhere(tuple(pools)),
        age_h=seen[at].age_h if at >= 0 else age_h,
        days=_days(tuple(pools)).today(losses, aged),
    )


def pick(seen: Sequence[Seen], up: Sequence[bool], prices: Sequence[float] = (), lost_h: float = 0.0) -> int:
    """The pool that has something and costs least with what a loss at its age costs; -1 where none has.

    A loss costs `lost_h` hours; of equal prices the one that is least likely to be lost is taken.
    """

    def costs(index: int) -> tuple[float, float, int]:
        ends = seen[index].ends_per_h
        return (prices[index] if prices else 1.0) * (1.0 + ends * lost_h), ends, index

    return min((index for index, is_up in enumerate(up) if is_up), key=costs, default=-1)


def _faded(pool: Seen, age_h: float) -> float:
    """The share of its returns that a pool has lost which has been down for longer than `age_h`."""
    return 1.0 - (age_h + pool.grain_h) / (pool.age_h + pool.grain_h)


@lru_cache(maxsize=256)
def _elsewhere(pools: tuple[History, ...]) -> float:
    """How often something was up at the moment of a loss; never always."""
    lost = [span.end_s for pool in pools for span in pool.ups if span.lost]
    return sum(any(pool.up_at(at_s) for pool in pools) for at_s in lost) / (1.0 + len(lost))


@lru_cache(maxsize=256)
def _days(pools: tuple[History, ...]) -> Days:
    """Of all pools together: a single one has too few losses in a day to tell days apart."""
    longest = max(len(pool.days) for pool in pools)
    # Pools that are watched since later have fewer days: the last ones are the same for all.
    days = [[pool.days[-back] for pool in pools if len(pool.days) >= back] for back in range(longest, 0, -1)]
    return days_of([(sum(one[0] for one in day), sum(one[1] for one in day)) for day in days])


def _gathered(ups: Iterable[Span], since_s: Instant, until_s: Instant) -> tuple[float, float]:
    lost = sum(span.lost and since_s < span.end_s <= until_s for span in ups)
    return float(lost), sum(span.aged(since_s, until_s) for span in ups)


def _turns(ups: Sequence[Span], from_s: Instant, *, down: bool) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """When there was any node, and when there was none after a loss.

    `down`: no node at first means that there was none to be had, not that nobody had asked for one.
    """
    covered: list[Span] = []
    downs: list[Span] = []
    end_s, lost = from_s, down
    for span in sorted(ups, key=lambda one: one.begin_s):
        if covered and span.begin_s <= end_s:
            covered[-1] = Span(covered[-1].begin_s, max(end_s, span.end_s))
        else:
            if lost and span.begin_s > end_s:
                downs.append(Span(end_s, span.begin_s))
            covered.append(Span(span.begin_s, span.end_s))
        if span.end_s >= end_s:
            end_s, lost = span.end_s, span.lost
    if end_s < math.inf and lost:
        downs.append(Span(end_s, math.inf))
    return tuple(covered), tuple(downs)
