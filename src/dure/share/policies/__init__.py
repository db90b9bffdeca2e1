"""Which waiting request goes first: one policy in each file, one signature, switched between two squads.

A policy is a function over parallel arrays (see `Rank`); the virtual GPU compiles it into its event loop, the device
daemon calls it between squads. Users add their own through the entry-point group `dure.share.policies`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from dure.share.policies import hybrid, jct, slack_guarded, slo
from dure.share.policies.arrays import Flags, Places, Reals

Rank: TypeAlias = Callable[[Flags, Reals, Reals, Reals, Reals, Reals, Places], None]
"""waiting, work left (ms), need (part of the device), age (ms), target (ms), weight -> place, in the last."""

POLICIES: dict[str, Rank] = {
    "jct": jct.rank,
    "slo": slo.rank,
    "hybrid": hybrid.rank,
    "slack-guarded": slack_guarded.rank,
}
"""The built-in policies by name."""
ENTRY_POINTS = "dure.share.policies"
