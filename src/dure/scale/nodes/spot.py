"""A spot node gets its two-minute notice: what happens in which second.

Called by the agent when the cloud announces a reclaim.
The replacement starts at once, in parallel with the drain; requests stop before pods do; pods that need longest to
finish go first. Every step has its latest second, and what cannot finish in time is said, not hidden.
"""

from __future__ import annotations

from typing import Literal

import msgspec

NOTICE_S = 120.0

Action = Literal["cordon", "start-replacement", "stop-requests", "evict", "checkpoint", "gone"]


class Guest(msgspec.Struct, frozen=True):
    """A pod on the node: how long it needs to finish in-flight work, and whether it serves or trains."""

    name: str
    drain_s: float
    serving: bool = True
    priority: int = 0


class ReclaimStep(msgspec.Struct, frozen=True):
    """One step, `at_s` seconds after the notice."""

    at_s: float
    action: Action
    subject: str
    detail: str = ""


def reclaim(
    node: str, guests: tuple[Guest, ...], notice_s: float = NOTICE_S, margin_s: float = 10.0
) -> tuple[ReclaimStep, ...]:
    """The steps after a reclaim notice, in order."""
    steps = [
        ReclaimStep(0.0, "cordon", node),
        ReclaimStep(0.0, "start-replacement", node, "in parallel with the drain"),
    ]
    last = notice_s - margin_s
    # Longest drain first: it has the least slack; among equals the lowest priority gives way first.
    for guest in sorted(guests, key=lambda g: (-g.drain_s, g.priority, g.name)):
        action: Action = "stop-requests" if guest.serving else "checkpoint"
        steps.append(ReclaimStep(0.0, action, guest.name))
        evict_s = min(guest.drain_s, last)
        lost = guest.drain_s - evict_s
        detail = f"{lost:.0f} s of its work is lost" if lost > 0 else "drained in time"
        steps.append(ReclaimStep(evict_s, "evict", guest.name, detail))
    steps.append(ReclaimStep(notice_s, "gone", node))
    return tuple(sorted(steps, key=lambda step: step.at_s))
