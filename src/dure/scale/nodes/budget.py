"""Disruption budgets: how many nodes of a pool may go now, and for which reason.

Called by the agent before it carries out a consolidation or drift plan. Budgets hold for `Empty`, `Underutilized`,
`Drifted`; never for expiry or a spot reclaim. The most restrictive active budget wins. Unlike Karpenter's, a
schedule is read in its own time zone, so that office hours are office hours.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from cronsim import CronSim, CronSimError

from dure.model.errors import InvalidInput

Reason = Literal["Empty", "Underutilized", "Drifted"]
UNLIMITED = 2**31 - 1


class Budget(msgspec.Struct, frozen=True):
    """`nodes` is a number or a percentage; without a schedule it is always active."""

    nodes: str = "10%"
    reasons: tuple[Reason, ...] = ()
    schedule: str = ""
    duration_s: float = 0.0
    timezone: str = "UTC"


def check(budget: Budget, where: str) -> None:
    """Raise `InvalidInput` for a budget that could never be understood."""
    _allowed_of(budget, 10)
    if bool(budget.schedule) != bool(budget.duration_s):
        raise InvalidInput("schedule and duration belong together", where=where, remedy="Give both or neither.")
    try:
        ZoneInfo(budget.timezone)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise InvalidInput(f"unknown time zone '{budget.timezone}'", where=where, remedy="Try Asia/Seoul.") from error
    if budget.schedule:
        try:
            CronSim(budget.schedule, datetime(2024, 1, 1, tzinfo=UTC))
        except CronSimError as error:
            raise InvalidInput(
                f"'{budget.schedule}' is not a cron schedule", where=where, remedy="Five fields, as in '0 9 * * 1-5'."
            ) from error


def allowed(budgets: tuple[Budget, ...], reason: str, total: int, deleting: int, not_ready: int, now_s: float) -> int:
    """How many more nodes of the pool may go now for this reason; a broken budget allows none."""
    limits = [
        _allowed_of(budget, total)
        for budget in budgets or (Budget(),)
        if (not budget.reasons or reason in budget.reasons) and active(budget, now_s)
    ]
    return max(0, min(limits, default=UNLIMITED) - deleting - not_ready)


def active(budget: Budget, now_s: float) -> bool:
    """True inside a window that began at a firing of the schedule; true when it cannot be read (fails closed)."""
    if not budget.schedule:
        return True
    try:
        now = datetime.fromtimestamp(now_s, tz=UTC).astimezone(ZoneInfo(budget.timezone))
        fired = next(CronSim(budget.schedule, now - timedelta(seconds=budget.duration_s, microseconds=1)))
    except (CronSimError, ZoneInfoNotFoundError, ValueError, StopIteration):
        return True
    return bool(fired <= now)


def _allowed_of(budget: Budget, total: int) -> int:
    """Percentages round up, as Karpenter's do; a figure that cannot be read allows nothing."""
    text = budget.nodes.strip()
    try:
        if text.endswith("%"):
            return max(0, -(-total * int(text[:-1]) // 100))
        return max(0, int(text))
    except ValueError:
        return 0
