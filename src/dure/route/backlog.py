"""What waits in all queues, as one thing that can be rearranged: who stands where, and when each queue is done.

Used by `reroute` to try many arrangements. A queue whose jobs all ask for the same is played as slots, in
O(waiting x log slots); any other as `forecast` does.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

from dure.model.units import Instant, Seconds
from dure.route.amounts import Amounts
from dure.route.forecast import crowding, play, slots_of
from dure.route.levelled import levelled
from dure.route.situation import Candidate, Lane, Order, Situation, Waiting

EPSILON_S = 1e-6
# Further ahead than so many starts the next plan decides.
TRIED = 32
Queues = Mapping[str, tuple[Waiting, ...]]


class Backlog:
    """The queues as they are; `done_s` answers for any other content of one of them."""

    def __init__(self, situation: Situation, movable: Iterable[Candidate]) -> None:
        self.now_s = situation.now_s
        self.lanes: Mapping[str, Lane] = situation.lanes
        self.waiting: dict[str, tuple[Waiting, ...]] = {name: lane.waiting for name, lane in self.lanes.items()}
        entering: dict[str, list[Amounts]] = {}
        for job in movable:
            for one in job.alternatives:
                entering.setdefault(one.lane, []).append(one.demand)
        self._slots = {name: slots_of(lane, entering.get(name, ())) for name, lane in self.lanes.items()}

    def arranged(self, lane: str, jobs: Iterable[Waiting], order: Order) -> tuple[Waiting, ...]:
        """The jobs as this queue would serve them in this order; where none may be given, as it stands."""
        found = self.lanes[lane]
        return tuple(sorted(jobs, key=order.rank if found.orderable else found.rank))

    def done_s(self, lane: str, waiting: tuple[Waiting, ...], *, calm: bool = False) -> Instant:
        """When the last of them, and of what runs there, ends; `calm` as if nobody slowed anybody down."""
        found, slots = self.lanes[lane], self._slots[lane]
        slower = 1.0 if calm else crowding(found, len(waiting))
        running = [held.until_s(self.now_s, slower) for held in found.running]
        if slots:
            return _last(running, self.now_s, found.hidden_s, slots, [job.run_s * slower for job in waiting])
        ends = (span.finish_s for span in play(found, self.now_s, waiting).values())
        return max((*running, *ends), default=self.now_s)

    def behind_s(self, lane: str, waiting: tuple[Waiting, ...], share: float) -> Seconds:
        """How far this arrangement falls behind the queue in which everybody stayed, first come; 0 if unknown."""
        slots, stayed = self._slots[lane], self.lanes[lane].stayed
        if not slots or stayed is None or len(stayed.free_s) != slots:
            return 0.0
        return stayed.behind_s(self._free(lane, waiting), self.now_s, share)

    def levelled(self, lane: str, waiting: tuple[Waiting, ...], share: float) -> tuple[Waiting, ...]:
        """The order in which the slots are done most evenly; its beginning and then first come, as much of it as
        keeps the queue within this share of staying; as given where neither does."""
        slots, found = self._slots[lane], self.lanes[lane]
        if not slots or not found.orderable or crowding(found, len(waiting)) != 1.0:
            return waiting
        best = levelled(self._free(lane, ()), waiting)
        come = sorted(waiting, key=Order.FIRST_COME.rank)
        for count in (len(best), *range(min(len(best) - 1, TRIED), 0, -1)):
            begun = {job.name for job in best[:count]}
            order = (*best[:count], *(job for job in come if job.name not in begun))
            if self.behind_s(lane, order, share) <= EPSILON_S:
                return order
        return waiting

    def _free(self, lane: str, waiting: tuple[Waiting, ...]) -> tuple[Instant, ...]:
        """When each slot has served all of them, earliest first."""
        found = self.lanes[lane]
        slower = crowding(found, len(waiting))
        running = [held.until_s(self.now_s, slower) for held in found.running]
        free = _served(
            running, self.now_s + found.hidden_s, self._slots[lane], [job.run_s * slower for job in waiting]
        )
        return tuple(sorted(free))

    def ends(self, lane: str, waiting: tuple[Waiting, ...]) -> dict[str, Instant]:
        return {job: span.finish_s for job, span in play(self.lanes[lane], self.now_s, waiting).items()}


def _last(running: list[Instant], now_s: Instant, hidden_s: Seconds, slots: int, run_s: list[Seconds]) -> Instant:
    """A slot's time only grows, so the last one to end is among the slots, or what runs longest."""
    free = _served(running, now_s + hidden_s, slots, run_s) if run_s else []
    return max((*free, *running), default=now_s)


def _served(running: list[Instant], begin: Instant, slots: int, run_s: list[Seconds]) -> list[Instant]:
    free = [max(begin, until) for until in running] + [begin] * (slots - len(running))
    heapq.heapify(free)
    for one in run_s:
        heapq.heapreplace(free, free[0] + one)
    return free
