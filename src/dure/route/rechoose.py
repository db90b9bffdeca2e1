"""Look again with the policy that chose: each waiting job asks once more, as if it came now, oldest first.

For policies that weigh more than time (`chain` with money or carbon): a joint plan for the earliest end would undo
what they chose. A job leaves its queue only for a gain. O(waiting x alternatives x queue length).
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from dure.route.forecast import NEVER, insert, without
from dure.route.reroute import Move, Plan, Settings
from dure.route.situation import Candidate, Choice, Offer, Situation, Waiting

Policy = Callable[[Candidate, Situation], Choice]


def plan(
    waiting: tuple[Candidate, ...], situation: Situation, choose: Policy, settings: Settings | None = None
) -> Plan:
    """`waiting` as for `reroute.plan`: the queue it is in is each job's first alternative."""
    rule = settings or Settings()
    made = []
    for job in sorted(waiting, key=lambda one: (one.created_s, one.name)):
        here = situation.lanes.get(job.home.lane)
        if here is None or not job.light or job.moves >= rule.most_moves:
            continue
        away = replace(situation, lanes={**situation.lanes, here.name: without(here, job.name)})
        choice = choose(job, away)
        if choice.index == 0 or not _gains(choice.offers, choice.index, situation.now_s, rule):
            continue
        to = job.alternatives[choice.index]
        entered = Waiting(job.name, to.demand, to.run_s, situation.now_s, job.priority)
        situation = replace(away, lanes={**away.lanes, to.lane: insert(away.lanes[to.lane], entered)})
        before, after = choice.offers[0].finish_s, choice.offers[choice.index].finish_s
        made.append(
            Move(
                job.name,
                job.home.queue,
                to.queue,
                to.class_name,
                to,
                NEVER if before is None else before,
                NEVER if after is None else after,
                choice.because,
            )
        )
    return Plan(tuple(made))


def _gains(offers: tuple[Offer, ...], index: int, now_s: float, rule: Settings) -> bool:
    """By the score where the policy has one, else by the end; a queue that refuses is always worth leaving."""
    here, there = offers[0], offers[index]
    if here.refused:
        return True
    before = here.finish_s if here.score is None else now_s + here.score
    after = there.finish_s if there.score is None else now_s + there.score
    if before is None or after is None:
        return False
    return before - after >= max(rule.gain_s, rule.gain * (before - now_s))
