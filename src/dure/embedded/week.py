"""The same loop in virtual time: a week of a fleet in seconds, and what came of it.

Time leaps to the next thing that somebody has to do something about (an arrival, something that ended or broke in a
cluster, a look at those who wait). Same fleet, workloads and seed give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from dure.adapters.clock import VirtualClock
from dure.adapters.memory.store import MemoryStore
from dure.embedded.summary import Summary, Usage, summarise
from dure.embedded.world import EmbeddedWorld
from dure.model.catalogue import Catalogue
from dure.model.fleet import Fleet
from dure.model.policy import Policy, Verb
from dure.model.units import DAY_S, Instant
from dure.model.workload import Workload
from dure.place import place
from dure.plane.later import later_of
from dure.plane.loop import Decide

# Monday 2026-01-05 00:00 UTC: a fixed start, so that a run says the same on every day.
START_S = 1_767_571_200.0
# Events closer together than this are handled in one step, as a live loop would.
GRAIN_S = 60.0
# Waiting workloads are looked at this often even if nothing else happens.
LOOK_S = 600.0
# Nobody cancels anything in a simulation, so a quiet agent need only keep its figures from counting as stale (300 s).
IDLE_S = 240.0
# A workload may need this many steps at one moment: place, apply, bind, report.
SETTLE_STEPS = 6

Timed = tuple[Instant, Workload]


class Run(msgspec.Struct, frozen=True):
    fleet: Fleet
    catalogue: Catalogue
    arrivals: Sequence[Timed]
    days: float = 7.0
    seed: int = 1
    start_s: Instant = START_S


def simulate(
    run: Run,
    progress: Callable[[float], None] | None = None,
    store: MemoryStore | None = None,
    decide: Decide = place,
) -> Summary:
    """Run to the end and sum up. `progress` is told the share of time that has passed.

    A `store` that is given is filled, for those who want more than the summary: journal, events, ledger.
    `decide` is the placement that is played.
    """
    clock = VirtualClock(run.start_s)
    store = store if store is not None else MemoryStore()
    world = EmbeddedWorld(run.fleet, run.catalogue, store, clock, seed=run.seed, idle_s=IDLE_S, decide=decide)
    world.plane.later = later_of(world.plane.observer, foretell=False)
    usage = Usage()
    end_s = run.start_s + run.days * DAY_S
    coming = sorted(run.arrivals, key=lambda pair: (pair[0], pair[1].name))
    taken = 0
    while True:
        now_s = clock.now()
        arrived = taken
        while arrived < len(coming) and coming[arrived][0] <= now_s:
            arrived += 1
        world.submit([workload for _, workload in coming[taken:arrived]])
        taken = arrived
        for _ in range(SETTLE_STEPS):
            if not world.step():
                break
        usage.sample(store.list_reports(), now_s)
        if progress is not None:
            progress((now_s - run.start_s) / (end_s - run.start_s))
        if now_s >= end_s:
            break
        following = coming[taken][0] if taken < len(coming) else end_s
        _leap(clock, world, min(end_s, following, now_s + LOOK_S))
    world.plane.close_books()
    return summarise(run.fleet, store, usage, start_s=run.start_s, end_s=end_s, seed=run.seed)


def without_moves(fleet: Fleet) -> Fleet:
    """The same fleet whose placement policy leaves everybody where they are."""
    placing = [policy for policy in fleet.policies if policy.verb is Verb.PLACE] or [Policy("still", Verb.PLACE)]
    still = [msgspec.structs.replace(one, settings={**one.settings, "movesAtOnce": 0}) for one in placing]
    others = [policy for policy in fleet.policies if policy.verb is not Verb.PLACE]
    return msgspec.structs.replace(fleet, policies=(*others, *still))


def _leap(clock: VirtualClock, world: EmbeddedWorld, limit_s: Instant) -> None:
    """On to the next moment in which somebody has to do something, at the latest to `limit_s`.

    What clusters do by themselves meanwhile happens at its own time, and is reported with that time in the next step.
    """
    soonest_s = clock.now() + GRAIN_S
    limit_s = max(limit_s, soonest_s)
    while clock.now() < limit_s:
        event_s = world.next_event_s()
        clock.advance(limit_s if event_s is None else min(limit_s, max(clock.now(), event_s)))
        if world.live_on():
            break
    clock.advance(max(clock.now(), soonest_s))
