"""How fast a service spends its error budget, over several windows at once.

An alert needs a long window (it matters) and a short one (it still goes on) to burn faster than a factor: the
multi-window rule of the SRE workbook. The API and the dashboard call `burns`; counters may restart from zero.
Cost: O(points).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from dure.model.units import DAY_S, HOUR_S, Instant, Seconds


class Count(NamedTuple):
    """Cumulative requests and good ones at one moment."""

    at_s: Instant
    total: float
    good: float


class Window(NamedTuple):
    """`factor` times the even pace: 14.4 over an hour is 2 % of a month's budget."""

    long_s: Seconds
    short_s: Seconds
    factor: float
    level: str


PAGE = "page"
WINDOWS = (
    Window(HOUR_S, 300, 14.4, PAGE),
    Window(6 * HOUR_S, 1800, 6.0, PAGE),
    Window(3 * DAY_S, 6 * HOUR_S, 1.0, "ticket"),
)
BUDGET_S = 28.0 * DAY_S


class Burn(msgspec.Struct, frozen=True):
    """`long` and `short` are multiples of the even pace; None where nothing was asked in the window."""

    level: str
    long_s: Seconds
    short_s: Seconds
    factor: float
    long: float | None
    short: float | None
    firing: bool


class BudgetState(msgspec.Struct, frozen=True):
    """`left` is the unspent part of the budget of 28 days, below zero when overdrawn; `gone_s` when it is spent."""

    target: float
    attained: float | None
    left: float | None
    burns: tuple[Burn, ...]
    gone_s: Instant | None = None

    @property
    def level(self) -> str:
        """page, ticket, or empty when all is well."""
        return next((burn.level for burn in self.burns if burn.firing), "")


def budget_state(counts: Sequence[Count], target: float, now_s: Instant) -> BudgetState:
    """`target` is the share of requests that has to be good, such as 0.999."""
    found = tuple(_burn(counts, target, window, now_s) for window in WINDOWS)
    total, good = _increase(counts, now_s - BUDGET_S)
    if total <= 0:
        return BudgetState(target, None, None, found)
    bad, allowed = 1 - good / total, max(1e-9, 1 - target)
    left = 1 - bad / allowed
    pace = max((burn.long for burn in found if burn.long is not None), default=0.0)
    gone_s = now_s + left * BUDGET_S / pace if left > 0 and pace > 1 else None
    return BudgetState(target, good / total, left, found, gone_s)


def _burn(counts: Sequence[Count], target: float, window: Window, now_s: Instant) -> Burn:
    long = _pace(counts, target, now_s - window.long_s)
    short = _pace(counts, target, now_s - window.short_s)
    firing = long is not None and short is not None and min(long, short) >= window.factor
    return Burn(window.level, window.long_s, window.short_s, window.factor, long, short, firing)


def _pace(counts: Sequence[Count], target: float, since_s: Instant) -> float | None:
    total, good = _increase(counts, since_s)
    return (1 - good / total) / max(1e-9, 1 - target) if total > 0 else None


def _increase(counts: Sequence[Count], since_s: Instant) -> tuple[float, float]:
    """What was counted since then; a counter that fell was restarted. The point before the window begins it."""
    begin = max((index for index, one in enumerate(counts) if one.at_s <= since_s), default=0)
    total = good = 0.0
    for before, after in zip(counts[begin:], counts[begin + 1 :], strict=False):
        restarted = after.total < before.total
        total += after.total - (0 if restarted else before.total)
        good += after.good - (0 if restarted else before.good)
    return total, min(total, good)
