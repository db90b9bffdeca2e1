"""Look again at what waits: which jobs should change queues, and in which order a queue should serve them.

All that waits is planned jointly. From where everybody stands, the single move or the exchange of two jobs is taken
that brings the end of the backlog forward most, then the ends of the other queues; a plan never delays the end that
is known now, so that with true durations no arrangement of queues is worse than staying (removing a job from a
first-come queue delays nobody). The same is planned with the longest jobs first, which leaves fewer slots idle at
the end (Graham's bound 4/3 against 2), and what comes out of both is levelled further (`levelled`). A first-come
queue from which jobs are taken never falls behind the queue in which they stayed; one in another order may, when more
arrives. So an order is taken only where it brings the end forward and keeps the queue within a share of staying,
whatever arrives (`stayed`): of a levelled one as much as does, and then first come. Who comes later stands behind
those that were put in order until the next plan sorts anew, and stays there if sorting would be regretted.

Every move carries its reason; a job moves only so often. O(steps x kinds of jobs squared x backlog), cut off by
`effort`. Not for queues that share quota in a cohort: there the forecast is only a bound.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator, Mapping

import msgspec

from dure.model.units import Instant, Seconds
from dure.route.backlog import Backlog
from dure.route.situation import Alternative, Candidate, Lane, Order, Situation, Waiting


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A plan must bring the end of the backlog, or the sum of all queues' ends, `gain_s` and the share `gain` of the
    time to it forward; another order than first-come the share `order_gain`. `orders` False keeps first-come. No
    order may let the queue fall behind staying by more than the share `behind`, whatever arrives (`stayed`)."""

    gain_s: Seconds = 0.5
    gain: float = 0.01
    orders: bool = True
    order_gain: float = 0.0
    behind: float = 0.02
    most_moves: int = 3
    steps: int = 64
    effort: int = 30_000


class Move(msgspec.Struct, frozen=True):
    job: str
    from_queue: str
    to_queue: str
    to_class: str
    alternative: Alternative
    before_s: Instant
    after_s: Instant
    because: str


class Plan(msgspec.Struct, frozen=True):
    """`orders` has the queues that should serve in another order than they do now: whom first, and after those
    whoever came first; `because` says why."""

    moves: tuple[Move, ...] = ()
    orders: Mapping[str, tuple[str, ...]] = {}
    because: str = ""


class Goal(msgspec.Struct, frozen=True, order=True):
    """What is brought down, in this order: the end of the backlog, the queues' ends added up, the number of moves."""

    last_s: Instant
    ends_s: Seconds
    moves: int


EPSILON_S = 1e-6
Change = tuple[tuple[Candidate, Alternative], ...]


def plan(waiting: tuple[Candidate, ...], situation: Situation, settings: Settings | None = None) -> Plan:
    """`waiting` are the gateway's jobs that wait, each with the queue it is in as its first alternative."""
    rule = settings or Settings()
    known = sorted((job for job in waiting if job.home.lane in situation.lanes), key=lambda job: job.name)
    movable = [job for job in known if job.light and job.moves < rule.most_moves]
    backlog = Backlog(situation, movable)
    lanes = [lane for lane in situation.lanes.values() if lane.orderable and len(lane.waiting) > 1]

    def searched(order: Order) -> _Search:
        found = _Search(backlog, situation, movable, order, rule)
        found.run()
        return found

    best = first = searched(Order.FIRST_COME)
    because = "no other order brings the end of the backlog forward enough"
    if rule.orders and lanes:
        longest = searched(Order.LONGEST_FIRST)
        others = [longest, longest.levelled(), first.levelled()]
        if any(job.rank for lane in lanes for job in lane.waiting):
            others.insert(0, searched(Order.AS_IT_STANDS))
        best = _preferred(first, others, rule, backlog.now_s)
        if best is not first:
            ends = (best.goal.last_s - backlog.now_s, first.goal.last_s - backlog.now_s)
            because = f"the backlog ends in {ends[0]:.0f} s instead of {ends[1]:.0f} s"
    orders = {lane.name: order for lane in lanes if (order := best.served(lane)) is not None}
    floor = max(rule.gain_s, rule.gain * (best.begun.last_s - backlog.now_s))
    gained = best.goal.last_s <= best.begun.last_s - floor or best.goal.ends_s <= best.begun.ends_s - floor
    return Plan(best.moves() if gained else (), orders, because if orders else "")


def _preferred(first: _Search, others: list[_Search], rule: Settings, now_s: Instant) -> _Search:
    """Another order than first-come has to gain and may not fall behind staying. Where first-come itself would,
    because the queue was in another order before, what falls behind least: as it stands it never does."""
    needed = max(rule.gain_s, rule.order_gain * (first.goal.last_s - now_s))
    safe = [one for one in others if one.behind_s <= EPSILON_S]
    gaining = [one for one in safe if one.goal.last_s <= first.goal.last_s - needed]
    if gaining:
        return min(gaining, key=lambda one: one.goal)
    if first.behind_s <= EPSILON_S:
        return first
    return min(safe, key=lambda one: one.goal) if safe else min((first, *others), key=lambda one: one.behind_s)


class _Search:
    """One descent under one order of the queues."""

    def __init__(
        self, backlog: Backlog, situation: Situation, movable: list[Candidate], order: Order, rule: Settings
    ) -> None:
        self._backlog, self.order, self._rule = backlog, order, rule
        self._movable = movable
        self._open = {name for name, one in situation.figures.items() if one.active and name in backlog.lanes}
        self._at: dict[str, Alternative] = {job.name: job.home for job in movable}
        self._queues = {name: backlog.arranged(name, jobs, order) for name, jobs in backlog.waiting.items()}
        self._done = {name: backlog.done_s(name, jobs) for name, jobs in self._queues.items()}
        self._effort = rule.effort
        self.begun = self.goal = self._goal({}, 0)
        calm = (backlog.done_s(name, jobs, calm=True) for name, jobs in self._queues.items())
        self._limit_s = max(calm, default=backlog.now_s)

    def run(self) -> None:
        for _ in range(self._rule.steps):
            best: tuple[Goal, Change] | None = None
            for change in self._changes():
                if self._effort < 0:
                    break
                tried = self._tried(change)
                if tried < self.goal and (best is None or tried < best[0]):
                    best = (tried, change)
            if best is None:
                return
            self._keep(*best)

    def levelled(self) -> _Search:
        """The same jobs in the same queues, each in the order in which its slots are done most evenly."""
        found = copy.copy(self)
        found._queues, found._done = {}, dict(self._done)
        for name, jobs in self._queues.items():
            found._queues[name] = self._backlog.levelled(name, jobs, self._rule.behind)
            found._done[name] = self._backlog.done_s(name, found._queues[name])
        found.goal = found._goal({}, self.goal.moves)
        return found

    def served(self, lane: Lane) -> tuple[str, ...] | None:
        """Whom this queue should serve before all others who stay there; None if it does so as it stands."""
        here = {job.name for job in lane.waiting}
        wanted = [job for job in self._queues[lane.name] if job.name in here]
        stays = {job.name for job in wanted}
        if [job.name for job in wanted] == [job.name for job in lane.waiting if job.name in stays]:
            return None
        last = len(wanted)
        rank = Order.FIRST_COME.rank
        while last > 1 and rank(wanted[last - 2]) <= rank(wanted[last - 1]):
            last -= 1
        return tuple(job.name for job in wanted[: last - 1])

    @functools.cached_property
    def behind_s(self) -> Seconds:
        """How far the queues would fall behind those in which everybody had stayed."""
        backlog, share = self._backlog, self._rule.behind
        return max((backlog.behind_s(name, jobs, share) for name, jobs in self._queues.items()), default=0.0)

    def moves(self) -> tuple[Move, ...]:
        """Each with when it would have ended where it stands, and when it will."""
        backlog, made = self._backlog, []
        before = {name: backlog.ends(name, jobs) for name, jobs in backlog.waiting.items()}
        after = {name: backlog.ends(name, jobs) for name, jobs in self._queues.items()}
        for job in self._movable:
            here, there = job.home, self._at[job.name]
            if here.lane == there.lane:
                continue
            was_s, will_s = before[here.lane].get(job.name, backlog.now_s), after[there.lane][job.name]
            why = self._why(was_s, will_s)
            made.append(Move(job.name, here.queue, there.queue, there.class_name, there, was_s, will_s, why))
        return tuple(made)

    def _why(self, was_s: Instant, will_s: Instant) -> str:
        now_s = self._backlog.now_s
        text = f"ends in {will_s - now_s:.0f} s there instead of {was_s - now_s:.0f} s here"
        return text if will_s < was_s else f"{text}; the backlog ends in {self.goal.last_s - now_s:.0f} s by it"

    def _changes(self) -> Iterator[Change]:
        """One job of each kind and queue stands for all of them: the one that would end last where it stands."""
        kinds: dict[tuple[object, ...], Candidate] = {}
        place = {job.name: number for jobs in self._queues.values() for number, job in enumerate(jobs)}
        for job in sorted(self._movable, key=lambda one: place[one.name]):
            ways = tuple((one.lane, one.run_s, one.changes.recreates) for one in job.alternatives)
            kinds[self._at[job.name].lane, job.home.lane, ways] = job
        singles = [(job, one) for job in kinds.values() for one in job.alternatives if self._may(job, one)]
        for single in singles:
            yield (single,)
        for first in singles:
            for second in singles:
                if self._at[first[0].name].lane < first[1].lane and self._exchange(first, second):
                    yield (first, second)

    def _may(self, job: Candidate, to: Alternative) -> bool:
        return to.lane != self._at[job.name].lane and (to.lane in self._open or to.lane == job.home.lane)

    def _exchange(self, first: tuple[Candidate, Alternative], second: tuple[Candidate, Alternative]) -> bool:
        return self._at[second[0].name].lane == first[1].lane and second[1].lane == self._at[first[0].name].lane

    def _tried(self, change: Change) -> Goal:
        queues = self._changed(change)
        self._effort -= sum(map(len, queues.values()))
        done = {name: self._backlog.done_s(name, jobs) for name, jobs in queues.items()}
        if not all(self._welcome(job, to, len(queues[to.lane]), done[to.lane]) for job, to in change):
            return self.goal
        away = sum((to.lane != job.home.lane) - (self._at[job.name].lane != job.home.lane) for job, to in change)
        return self._goal(done, self.goal.moves + away)

    def _welcome(self, job: Candidate, to: Alternative, waiting: int, done_s: Instant) -> bool:
        """It delays no end that is known, and a guest leaves time and room for those who name that queue."""
        lane = self._backlog.lanes[to.lane]
        if done_s + lane.kept_s(job) > self._limit_s + EPSILON_S:
            return False
        return lane.has_room(job, len(lane.running) + waiting, self._backlog.now_s)

    def _goal(self, done: Mapping[str, Instant], moves: int) -> Goal:
        ends = [done.get(name, until) for name, until in self._done.items()]
        return Goal(round(max(ends, default=self._backlog.now_s), 6), round(sum(ends), 6), moves)

    def _changed(self, change: Change) -> dict[str, tuple[Waiting, ...]]:
        queues: dict[str, list[Waiting]] = {}
        for job, to in change:
            here = self._at[job.name].lane
            for lane in (here, to.lane):
                queues.setdefault(lane, list(self._queues[lane]))
            queues[here] = [one for one in queues[here] if one.name != job.name]
            queues[to.lane].append(self._entered(job, to))
        return {name: self._backlog.arranged(name, jobs, self.order) for name, jobs in queues.items()}

    def _entered(self, job: Candidate, to: Alternative) -> Waiting:
        """A job that is made anew stands at the end of a first-come queue; one that came back had never left."""
        anew = to.lane != job.home.lane and (to.changes.recreates or job.home.changes.recreates)
        created_s = self._backlog.now_s if anew else job.created_s
        return Waiting(job.name, to.demand, to.run_s, created_s, job.priority)

    def _keep(self, goal: Goal, change: Change) -> None:
        for name, jobs in self._changed(change).items():
            self._queues[name] = jobs
            self._done[name] = self._backlog.done_s(name, jobs)
        for job, to in change:
            self._at[job.name] = to
        self.goal = goal
