"""Moving pods so that room comes together: a plan, a person's wish for one, and how the agent answered it.

`pack.defrag` makes plans, `agent.tidy` acts on them, `plane.defrag` carries wishes down and answers up. A wish is a
level: it stands until it is answered for good, and its `id` tells an agent whether it has seen it.
"""

from __future__ import annotations

import enum

import msgspec

from dure.model.cluster import Slice
from dure.model.units import Instant, Seconds


class How(enum.StrEnum):
    """How a pod changes its place without harm."""

    WARM_FIRST = "warm-first"
    AT_CHECKPOINT = "at-checkpoint"
    RESTART = "restart"


class PodMove(msgspec.Struct, frozen=True):
    """One step of a plan: this pod from here to there."""

    pod: str
    uid: str
    workload: str
    tenant: str
    from_node: str
    to_node: str
    slices: tuple[Slice, ...]
    how: How
    lost_s: Seconds


class DefragPlan(msgspec.Struct, frozen=True):
    """Moves in order, what they free, and what they cost in device-seconds of lost work."""

    cluster: str
    goal: str
    node: str
    moves: tuple[PodMove, ...]
    cost_s: Seconds
    version: str


class WantedRoom(msgspec.Struct, frozen=True):
    """A workload that the plane holds because free devices do not lie together: so many on each of `nodes`."""

    workload: str
    devices: int
    classes: tuple[str, ...]
    pool: str
    nodes: int = 1


class KeptTurn(msgspec.Struct, frozen=True):
    """Whose turn it is in a pool of a cluster; `torn` where what it needs is free, but not together."""

    cluster: str
    room: WantedRoom
    torn: bool


class DefragWish(msgspec.Struct, frozen=True, omit_defaults=True):
    """Somebody asks one cluster for a plan, and with `apply` for what it says to be done.

    `keeps` is the plane's own: whose turn it is in torn pools, as long as it says so. With it alone `id` is empty.
    """

    id: str
    asked_s: Instant
    apply: bool = False
    wanted: WantedRoom | None = None
    keeps: tuple[WantedRoom, ...] = ()


class DefragState(enum.StrEnum):
    """How far a wish has come."""

    ASKED = "asked"
    NOTHING = "nothing-to-do"
    PLANNED = "planned"
    WAITING = "waiting-for-checkpoint"
    MOVED = "moved"
    DROPPED = "dropped"


class DefragAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of a wish; `note` says it in words where there is no plan, or none any more."""

    cluster: str
    wish: str
    at_s: Instant
    state: DefragState
    apply: bool = False
    plan: DefragPlan | None = None
    note: str = ""

    @property
    def final(self) -> bool:
        if self.state is DefragState.PLANNED:
            return not self.apply
        return self.state in (DefragState.NOTHING, DefragState.MOVED, DefragState.DROPPED)
