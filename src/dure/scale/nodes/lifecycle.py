"""Nodes that must change although nobody asked: expired, drifted, or out of hours.

Called by the agent each round. Expiry and schedules ignore budgets, drift does not; a schedule says how many nodes a
pool may have at which hours.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim

from dure.scale.nodes.state import Node


class Ending(msgspec.Struct, frozen=True):
    """A node that should go, and why."""

    node: str
    reason: str
    detail: str


class Schedule(msgspec.Struct, frozen=True):
    """From each firing of `cron` on, the pool has at most `nodes` nodes for `duration_s` seconds."""

    cron: str
    duration_s: float
    nodes: int
    timezone: str = "UTC"


def expired(nodes: tuple[Node, ...], expire_after_s: float, now_s: float) -> tuple[Ending, ...]:
    """Nodes older than their pool allows, oldest first."""
    old = [node for node in nodes if now_s - node.started_s >= expire_after_s and not node.deleting]
    return tuple(
        Ending(node.name, "Expired", f"{(now_s - node.started_s) / 3600:.0f} h old")
        for node in sorted(old, key=lambda n: (n.started_s, n.name))
    )


def drifted(nodes: tuple[Node, ...], template: str) -> tuple[Ending, ...]:
    """Nodes made from another template than the pool has now; emptiest first, as they disturb least."""
    other = [node for node in nodes if node.template != template and not node.deleting]
    return tuple(
        Ending(node.name, "Drifted", f"made from {node.template or 'an unknown template'}, pool has {template}")
        for node in sorted(other, key=lambda n: (len(n.pods), n.name))
    )


def scheduled_nodes(schedules: tuple[Schedule, ...], now_s: float) -> int | None:
    """How many nodes the schedules leave now (the highest of the active ones); None when none is active."""
    counts = [schedule.nodes for schedule in schedules if _active(schedule, now_s)]
    return max(counts, default=None)


def surplus(nodes: tuple[Node, ...], most: int) -> tuple[Ending, ...]:
    """Nodes beyond what a schedule leaves, emptiest first; those on their way out count as gone."""
    staying = sorted((node for node in nodes if not node.deleting), key=lambda n: (len(n.pods), n.name))
    return tuple(
        Ending(node.name, "OffHours", f"the schedule leaves {most} of {len(staying)} nodes")
        for node in staying[: max(0, len(staying) - most)]
    )


def _active(schedule: Schedule, now_s: float) -> bool:
    now = datetime.fromtimestamp(now_s, tz=UTC).astimezone(ZoneInfo(schedule.timezone))
    since = now - timedelta(seconds=schedule.duration_s, microseconds=1)
    return bool(next(CronSim(schedule.cron, since)) <= now)
