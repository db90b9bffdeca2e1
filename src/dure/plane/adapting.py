"""The plane's memory of the adaptive weights: watches the fleet, and after each hour lets `place.learn` move them.

Called by the loop in every cycle. What was seen in a window is counted as it happens, so nothing is read twice; the
weights and their recent past are kept in the store, so that a new leader goes on with them. A window that a restart
cut short is judged by what was seen of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from dure.model.cluster import VNodePool
from dure.model.decision import JournalEntry, Place, Reweigh
from dure.model.event import Event
from dure.model.policy import Verb
from dure.model.posting import Posting
from dure.model.report import Report
from dure.model.units import HOUR_S, WHOLE_MILLI, Instant
from dure.model.weights import HISTORY_SETTING, WEIGHTS_SETTING, WeightHistory, WeightPoint
from dure.model.workload import Phase, WorkloadStatus, WorkloadType
from dure.place.adapt import Window
from dure.place.learn import Learning, Memory, learn
from dure.place.settings import settings_of
from dure.plane.apply import Draft
from dure.ports import NO_SETTINGS, StorePort

WINDOW_S = float(HOUR_S)
# A fortnight of hours for the eye; the journal has all of them.
POINTS = 336
# A missed promise makes the work of a window count this much dearer to the bandit.
MISS_FACTOR = 3.0
MEMORY = "weights-memory"


class Learned(NamedTuple):
    """What the loop has to commit with its other writes, so that only a leader ever moves the weights."""

    entries: tuple[JournalEntry, ...] = ()
    settings: Mapping[str, str] = NO_SETTINGS
    events: tuple[Event, ...] = ()
    postings: tuple[Posting, ...] = ()


NOTHING = Learned()


class Adapting:
    """`look` is called once in every cycle, `close` then tells what a window that has ended came to."""

    def __init__(self, store: StorePort) -> None:
        self._store = store
        self._seen = _Seen()
        self._began_s: Instant | None = None
        self._served: dict[str, tuple[int, int]] = {}

    def look(self, drafts: Iterable[Draft], reports: Sequence[Report], now_s: Instant) -> None:
        if self._began_s is None:
            self._began_s = now_s
        self._seen.use(reports, now_s)
        for draft in drafts:
            if draft.changed or draft.charges:
                self._count(draft, now_s)

    def close(self, now_s: Instant) -> Learned:
        """One entry and the weights that hold from now on, when an hour of the fleet's clock has ended."""
        if self._began_s is None or now_s // WINDOW_S == self._began_s // WINDOW_S:
            return NOTHING
        method = self._method()
        window, cost = self._seen.window(self._began_s), self._seen.cost()
        kept = self._store.fetch_setting(MEMORY)
        memory = learn(method, msgspec.json.decode(kept, type=Memory) if kept else Memory(), window, cost)
        self._began_s, self._seen = now_s, _Seen(self._seen)
        point = _point(now_s, window, memory)
        entry = JournalEntry(0, now_s, "", Reweigh(str(method), point, memory.weights))
        return Learned((entry,), self._settings(method, memory, point))

    def _method(self) -> Learning:
        policies = (policy for policy in self._store.list_policies() if policy.verb is Verb.PLACE)
        policy = next(policies, None)
        return Learning(settings_of(policy).learning) if policy else Learning.RULE

    def _settings(self, method: Learning, memory: Memory, point: WeightPoint) -> dict[str, str]:
        kept = self._store.fetch_setting(HISTORY_SETTING)
        past = msgspec.json.decode(kept, type=WeightHistory).points if kept else ()
        history = WeightHistory(memory.weights, str(method), WINDOW_S, (*past, point)[-POINTS:])
        return {
            MEMORY: msgspec.json.encode(memory).decode(),
            WEIGHTS_SETTING: msgspec.json.encode(memory.weights).decode(),
            HISTORY_SETTING: msgspec.json.encode(history).decode(),
        }

    def _count(self, draft: Draft, now_s: Instant) -> None:
        self._seen.starts(draft)
        self._seen.charges(draft)
        spec, status, uid = draft.before.spec, draft.status, draft.before.uid
        if spec.type is WorkloadType.SERVING:
            before = self._served.pop(uid, None) or _served(draft.before.status)
            after = _served(status)
            # Nobody counts the requests of some services: nothing is learned from those.
            if before is not None and after is not None:
                self._seen.requests(after[0] - before[0], after[1] - before[1])
            if after is not None and not status.phase.ended:
                self._served[uid] = after
        elif spec.deadline_s is not None and status.phase.ended and status.phase is not Phase.CANCELLED:
            met = status.phase is Phase.DONE and (status.finished_s or now_s) <= status.submitted_s + spec.deadline_s
            self._seen.deadline(met)


def _served(status: WorkloadStatus) -> tuple[int, int] | None:
    """All and timely requests so far, where somebody counts them."""
    if status.requests is None or status.requests_good is None:
        return None
    return status.requests, status.requests_good


class _Seen:
    """Counters of one window. Use goes on from the last look of the window before."""

    def __init__(self, before: _Seen | None = None) -> None:
        self._busy: dict[str, float] = {}
        self._there: dict[str, float] = {}
        self._last: dict[str, tuple[Instant, int, int]] = before._last if before else {}
        self._pools: dict[str, tuple[Sequence[VNodePool], tuple[tuple[str, int, int], ...]]] = {}
        """By cluster: the pools that were last looked at, and what they come to."""
        self._wanted_reuse = self._reused = 0
        self._promises = self._broken = 0
        self._micros = 0

    def use(self, reports: Iterable[Report], now_s: Instant) -> None:
        for report in reports:
            known = self._pools.get(report.cluster)
            if known is None or known[0] is not report.pools:
                known = self._pools[report.cluster] = report.pools, _classes(report.cluster, report.pools)
            for key, busy, there in known[1]:
                self._advance(key, busy, there, now_s)

    def _advance(self, key: str, busy: int, there: int, now_s: Instant) -> None:
        at_s, was_busy, was_there = self._last.get(key, (now_s, busy, there))
        self._busy[key] = self._busy.get(key, 0.0) + was_busy * (now_s - at_s)
        self._there[key] = self._there.get(key, 0.0) + was_there * (now_s - at_s)
        self._last[key] = (now_s, busy, there)

    def starts(self, draft: Draft) -> None:
        """Of those that could find a model or a data set in place, how many did."""
        spec = draft.before.spec
        for entry in draft.entries:
            if isinstance(entry.decision, Place) and (spec.model or spec.dataset):
                self._wanted_reuse += 1
                self._reused += entry.decision.placement.bill.reuse > 0

    def charges(self, draft: Draft) -> None:
        self._micros += sum(charge.micros for charge in draft.charges)

    def requests(self, all_of_them: int, good: int) -> None:
        self._promises += max(0, all_of_them)
        self._broken += max(0, all_of_them - good)

    def deadline(self, met: bool) -> None:
        self._promises += 1
        self._broken += not met

    def window(self, began_s: Instant) -> Window:
        return Window(
            use={key: round(self._busy[key] / there, 6) for key, there in sorted(self._there.items()) if there > 0},
            missed=self._broken / self._promises if self._promises else None,
            reused=self._reused / self._wanted_reuse if self._wanted_reuse else None,
            hour=int(began_s // HOUR_S % 24),
        )

    def cost(self) -> float | None:
        """Money per device-hour, dearer by the share of broken promises; None where nothing ran."""
        hours = sum(self._busy.values()) / WHOLE_MILLI / HOUR_S
        missed = self._broken / self._promises if self._promises else 0.0
        return self._micros / hours * (1 + MISS_FACTOR * missed) if hours > 0 and self._micros > 0 else None


def _classes(cluster: str, pools: Sequence[VNodePool]) -> tuple[tuple[str, int, int], ...]:
    """Under the name of cluster and class: what is in use and what there is."""
    classes: dict[str, tuple[int, int]] = {}
    for pool in pools:
        there, free = classes.get(pool.class_name, (0, 0))
        classes[pool.class_name] = (there + pool.devices * WHOLE_MILLI, free + pool.free_milli)
    return tuple((f"{cluster}/{name}", there - free, there) for name, (there, free) in classes.items())


def _point(now_s: Instant, window: Window, memory: Memory) -> WeightPoint:
    weights = memory.weights
    now = {key: price for key, price in weights.congestion.items() if "@" not in key}
    arm = memory.bandit.played
    return WeightPoint(now_s, weights.slo, weights.locality, now, window.use, window.missed, window.reused, arm)
