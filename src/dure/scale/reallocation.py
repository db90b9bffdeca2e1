"""Carrying out a reallocation: drain, move, warm, switch, one step after the other, and back again when one fails.

Called by whoever can change replica counts: the plane for embedded clusters, the agent for real Deployments.
`advance` is asked again and again with what is seen; it answers what should hold now (`Order`) and where the plan
stands. It keeps no clock and no memory of its own: the plan is a value that its caller stores, so a restart goes on
where the last one stopped. Invariants: nobody is ordered below where the plan leads it, devices are given to a winner
only after the losers' pods are gone, and an undone plan leaves everybody with what they had.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from dure.model.units import Instant, Seconds
from dure.scale.pools import Phase, ReallocationStep, Share, reallocation

Standing = Literal["running", "undoing", "done", "undone"]
Act = Literal["drain", "scale", "resume"]

# How long a step may take before the whole is undone.
LIMITS_S: dict[Phase, Seconds] = {"drain": 120.0, "move": 300.0, "warm": 900.0, "switch": 120.0}


class Held(msgspec.Struct, frozen=True):
    """A service as it is seen: what it was told to run, what is ready, how many pods still hold devices."""

    replicas: int
    ready: int
    pods: int


class Order(msgspec.Struct, frozen=True):
    """What should hold now. Given again until it is seen to hold; doing it twice is harmless."""

    act: Act
    service: str
    replicas: int


class Plan(msgspec.Struct, frozen=True):
    """A reallocation under way. `at` is the index of the step that is being done, or undone."""

    name: str
    steps: tuple[ReallocationStep, ...]
    before: dict[str, int]
    after: dict[str, int]
    began_s: Instant
    since_s: Instant
    at: int = 0
    standing: Standing = "running"
    why: str = ""

    @property
    def over(self) -> bool:
        return self.standing in ("done", "undone")

    @property
    def step(self) -> ReallocationStep | None:
        return None if self.over else self.steps[self.at]


def planned(name: str, shares: Sequence[Share], now_s: Instant) -> Plan | None:
    """The plan that leads to these shares; None when they change nothing."""
    changed = [share for share in shares if share.after != share.before]
    if not changed:
        return None
    steps = reallocation(tuple(changed))
    before = {share.service: share.before for share in changed}
    after = {share.service: share.after for share in changed}
    why = ", ".join(f"{share.service} {share.before} to {share.after} ({share.reason})" for share in changed)
    return Plan(name, steps, before, after, now_s, now_s, why=why)


def advance(plan: Plan, seen: Mapping[str, Held], now_s: Instant) -> tuple[Plan, tuple[Order, ...]]:
    """Where the plan stands given what is seen, and what should hold now. O(steps)."""
    while not plan.over:
        step = plan.steps[plan.at]
        held = seen.get(step.service)
        undoing = plan.standing == "undoing"
        if not undoing and (held is None or now_s - plan.since_s > LIMITS_S[step.phase]):
            late = "is gone" if held is None else f"not done in {LIMITS_S[step.phase]:.0f} s"
            plan = msgspec.structs.replace(
                plan, standing="undoing", since_s=now_s, why=f"{step.phase} of {step.service}: {late}"
            )
            continue
        order = _undo(plan, step) if undoing else _order(plan, step)
        if held is not None and not (_undone if undoing else _reached)(plan, step, held, now_s):
            return plan, (order,) if order else ()
        plan = _onward(plan, now_s)
    return plan, ()


def _order(plan: Plan, step: ReallocationStep) -> Order | None:
    match step.phase:
        case "drain":
            return Order("drain", step.service, step.replicas)
        case "move" | "warm":
            return Order("scale", step.service, plan.after[step.service])
        case "switch":
            return None


def _reached(plan: Plan, step: ReallocationStep, held: Held, now_s: Instant) -> bool:
    match step.phase:
        case "drain":
            # Told once is enough: open requests are waited for by the pods' own grace period.
            return now_s > plan.since_s
        case "move":
            return held.replicas == plan.after[step.service] and held.pods <= plan.after[step.service]
        case "warm":
            return held.replicas == plan.after[step.service] and held.ready >= plan.after[step.service]
        case "switch":
            return held.ready >= plan.after[step.service]


def _undo(plan: Plan, step: ReallocationStep) -> Order | None:
    match step.phase:
        case "drain":
            return Order("resume", step.service, step.replicas)
        case "move" | "warm":
            return Order("scale", step.service, plan.before[step.service])
        case "switch":
            return None


def _undone(plan: Plan, step: ReallocationStep, held: Held, now_s: Instant) -> bool:
    back = plan.before[step.service]
    match step.phase:
        case "drain":
            return now_s > plan.since_s
        case "move":
            return held.replicas == back
        case "warm":
            # A loser's devices are free again only when the winner's new pods are gone.
            return held.replicas == back and held.pods <= back
        case "switch":
            return True


def _onward(plan: Plan, now_s: Instant) -> Plan:
    """The next step; while undoing, the one before."""
    ahead = plan.at - 1 if plan.standing == "undoing" else plan.at + 1
    if ahead < 0:
        return msgspec.structs.replace(plan, standing="undone", since_s=now_s)
    if ahead == len(plan.steps):
        return msgspec.structs.replace(plan, standing="done", since_s=now_s)
    return msgspec.structs.replace(plan, at=ahead, since_s=now_s)
