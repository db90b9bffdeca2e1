"""Look again at what waits: which jobs should change queues, given what runs and waits now.

The whole backlog of the queues concerned is played forward; single moves are made as long as the backlog ends
earlier, or ends as early with less waiting; those go first that lose least speed by it. Every move carries its
reason; a job moves only so often. O(steps x movable x backlog), with fewer tried the longer the backlog is.
"""

from __future__ import annotations

import msgspec

from dure.model.units import Instant, Seconds
from dure.route.forecast import last_running_s, play
from dure.route.situation import Alternative, Candidate, Lane, Situation, Waiting


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A move must bring the end of the backlog, or the sum of all ends, `gain_s` and the share `gain` forward."""

    gain_s: Seconds = 0.5
    gain: float = 0.01
    most_moves: int = 3
    steps: int = 16
    looked_at: int = 48
    effort: int = 200_000


class Move(msgspec.Struct, frozen=True):
    job: str
    from_queue: str
    to_queue: str
    to_class: str
    alternative: Alternative
    before_s: Instant
    after_s: Instant
    because: str


class _Plan:
    """The queues with their backlog; trying a move plays only the two queues it touches."""

    def __init__(self, situation: Situation, waiting: tuple[Candidate, ...]) -> None:
        self.now_s = situation.now_s
        self.lanes: dict[str, Lane] = dict(situation.lanes)
        self.queues: dict[str, list[Waiting]] = {name: list(lane.waiting) for name, lane in self.lanes.items()}
        self.at: dict[str, Alternative] = {job.name: job.home for job in waiting}
        self.ends: dict[str, dict[str, Instant]] = {name: self._play(name, self.queues[name]) for name in self.lanes}

    def goal(self, changed: dict[str, dict[str, Instant]]) -> tuple[Instant, Seconds]:
        last, total = self.now_s, 0.0
        for name, lane in self.lanes.items():
            ends = changed.get(name, self.ends[name])
            last = max(last, last_running_s(lane, self.now_s), max(ends.values(), default=self.now_s))
            total += sum(ends.values()) - len(ends) * self.now_s
        return last, total

    def tried(self, job: Candidate, to: Alternative) -> dict[str, list[Waiting]]:
        here = self.at[job.name].lane
        created_s = self.now_s if to.changes.recreates or self.at[job.name].changes.recreates else job.created_s
        entered = Waiting(job.name, to.demand, to.run_s, created_s, job.priority)
        there = [*self.queues[to.lane], entered]
        there.sort(key=lambda one: one.rank)
        return {here: [one for one in self.queues[here] if one.name != job.name], to.lane: there}

    def played(self, queues: dict[str, list[Waiting]]) -> dict[str, dict[str, Instant]]:
        return {name: self._play(name, waiting) for name, waiting in queues.items()}

    def keep(self, job: Candidate, to: Alternative, queues: dict[str, list[Waiting]]) -> None:
        self.queues.update(queues)
        self.ends.update(self.played(queues))
        self.at[job.name] = to

    def _play(self, name: str, waiting: list[Waiting]) -> dict[str, Instant]:
        return {job: span.finish_s for job, span in play(self.lanes[name], self.now_s, waiting).items()}


def moves(waiting: tuple[Candidate, ...], situation: Situation, settings: Settings | None = None) -> tuple[Move, ...]:
    """`waiting` are the jobs that may move, each with the queue it is in as its first alternative."""
    rule = settings or Settings()
    plan = _Plan(situation, waiting)
    movable = [job for job in waiting if job.light and job.moves < rule.most_moves and job.home.lane in plan.lanes]
    movable.sort(key=lambda job: (-plan.ends[job.home.lane].get(job.name, 0.0), job.name))
    backlog = 1 + sum(len(queue) for queue in plan.queues.values())
    looked_at = max(1, min(rule.looked_at, rule.effort // (rule.steps * backlog)))
    made: dict[str, Move] = {}
    for _ in range(rule.steps):
        step = _best(plan, movable[:looked_at], situation, rule)
        if step is None:
            break
        job, to, before_s, after_s = step
        here = job.home
        plan.keep(job, to, plan.tried(job, to))
        movable.remove(job)
        made[job.name] = Move(
            job.name,
            here.queue,
            to.queue,
            to.class_name,
            to,
            before_s,
            after_s,
            f"ends in {after_s - plan.now_s:.0f} s there instead of {before_s - plan.now_s:.0f} s here",
        )
    return tuple(made.values())


def _best(
    plan: _Plan, movable: list[Candidate], situation: Situation, rule: Settings
) -> tuple[Candidate, Alternative, Instant, Instant] | None:
    last, total = plan.goal({})
    found: tuple[tuple[float, float, float], Candidate, Alternative, Instant, Instant] | None = None
    for job in movable:
        before_s = plan.ends[job.home.lane].get(job.name)
        if before_s is None:
            continue
        for to in job.alternatives[1:]:
            figures = situation.figures.get(to.lane)
            if to.lane == job.home.lane or to.lane not in plan.lanes or figures is None or not figures.active:
                continue
            ends = plan.played(plan.tried(job, to))
            new_last, new_total = plan.goal(ends)
            after_s = ends[to.lane][job.name]
            floor = max(rule.gain_s, rule.gain * (last - plan.now_s))
            sooner = new_last <= last - floor
            if not sooner and (
                new_last > last or new_total > total - max(rule.gain_s, rule.gain * (before_s - plan.now_s))
            ):
                continue
            rank = (-_kept_speed(job.home, to), new_last, new_total)
            if found is None or rank < found[0]:
                found = (rank, job, to, before_s, after_s)
    return None if found is None else found[1:]


def _kept_speed(here: Alternative, there: Alternative) -> float:
    """The share of its speed that a job keeps on the slower side; 0 when it gains by moving."""
    return here.run_s / there.run_s if there.run_s > here.run_s else 0.0
