"""What is kept of spot pools: the spells that agents tell of, for longer than they remember them.

Called by `observe` for every snapshot and by the loop, which writes what is new. Level-triggered: what is told twice
counts once. What an agent that was restarted cannot know (when a node went that it never saw) is taken as given back
then, so that nobody learns from what nobody saw. An agent that tells nothing leaves its pools to the prior.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from dure.model.report import Report
from dure.model.spell import NodeSpell, PoolSpells
from dure.model.units import DAY_S, Instant, Seconds
from dure.plane.adapting import Learned
from dure.ports import StorePort

SETTING = "spot-spells"
# Twice what counts when a workload begins: some run for a week.
KEPT_S: Seconds = 14.0 * DAY_S
MOST = 512


class Spells:
    """Asked in every turn, and another only when a node came or went, or a day has passed."""

    def __init__(self, store: StorePort) -> None:
        self._store = store
        self._asked: tuple[tuple[PoolSpells, ...], str, int] = ((), "", 0)
        self._known: tuple[PoolSpells, ...] = ()
        self._text = self._kept = ""

    def of(self, reports: Sequence[Report], now_s: Instant) -> tuple[PoolSpells, ...]:
        """All that is known of the spot pools of these reports."""
        told = tuple(pool for report in reports for pool in report.spells)
        if not told:
            return ()
        text, day = self._store.fetch_setting(SETTING) or "", int(now_s // DAY_S)
        self._kept = text
        before, as_kept, on_day = self._asked
        same = len(told) == len(before) and all(map(operator.is_, told, before))
        if not same or day != on_day or text not in (as_kept, self._text):
            self._known = merged(text, told, day * DAY_S - KEPT_S)
            self._asked, self._text = (told, text, day), msgspec.json.encode(self._known).decode()
        return self._known

    def told(self, learned: Learned, reports: Sequence[Report], now_s: Instant) -> Learned:
        """With what the loop has to write, if anything came or went."""
        if not self.of(reports, now_s) or self._text == self._kept:
            return learned
        return learned._replace(settings={**learned.settings, SETTING: self._text})


def merged(text: str, told: Sequence[PoolSpells], until_s: Instant) -> tuple[PoolSpells, ...]:
    """What was kept, as text, with what is told now, by cluster and pool; what a cluster no longer has is let go."""
    kept = msgspec.json.decode(text, type=tuple[PoolSpells, ...]) if text else ()
    there, telling = {(pool.cluster, pool.pool) for pool in told}, {pool.cluster for pool in told}
    known = {(pool.cluster, pool.pool): pool for pool in kept}
    known = {key: pool for key, pool in known.items() if key in there or key[0] not in telling}
    for pool in told:
        key = pool.cluster, pool.pool
        known[key] = merge(known.get(key), pool, until_s)
    return tuple(known[key] for key in sorted(known))


def merge(known: PoolSpells | None, told: PoolSpells, until_s: Instant) -> PoolSpells:
    """One pool's past with what its agent has told now; what ended before `until_s` is forgotten."""
    if known is None:
        return told
    named = {spell.node: spell for spell in told.spells if spell.end_s is None}
    ended = {(spell.node, spell.begin_s): spell for spell in told.spells if spell.end_s is not None}
    merged: list[NodeSpell] = []
    for spell in known.spells:
        if spell.end_s is not None:
            ended.pop((spell.node, spell.begin_s), None)
            merged.append(spell)
        elif (end := _end_of(spell, ended.values())) is not None:
            del ended[end.node, end.begin_s]
            merged.append(replace(spell, end_s=end.end_s, lost=end.lost))
        elif spell.node in named:
            # The same node, seen by an agent that may have been started since.
            merged.append(replace(named.pop(spell.node), begin_s=spell.begin_s))
        else:
            merged.append(replace(spell, end_s=max(spell.begin_s, told.since_s)))
    merged += [*ended.values(), *named.values()]
    recent = (spell for spell in merged if spell.end_s is None or spell.end_s > until_s)
    spells = tuple(sorted(recent, key=lambda one: (one.begin_s, one.node)))[-MOST:]
    since_s = max(min(known.since_s, told.since_s), until_s)
    return replace(told, since_s=since_s, spells=spells)


def _end_of(open_spell: NodeSpell, ended: Iterable[NodeSpell]) -> NodeSpell | None:
    """How the spell of a node that was still there came to its end."""
    mine = (one for one in ended if one.node == open_spell.node and one.begin_s >= open_spell.begin_s)
    return min(mine, key=lambda one: one.begin_s, default=None)
