"""What a tenant's people say about its speed, turned into a target that moves within limits and comes back.

`too-slow` tightens the latency target by a step, `batch` loosens it, `fine` keeps it; each is recorded with its time
and fades after `LASTS_MS`. Alarms never come this way: only people move targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

Word = Literal["too-slow", "fine", "batch"]

STEP = 0.85
"""One `too-slow` multiplies the target by this, one `batch` divides by it."""
TIGHTEST = 0.5
LOOSEST = 3.0
LASTS_MS = 3_600_000.0


class Said(msgspec.Struct, frozen=True):
    tenant: str
    word: Word
    at_ms: float


def target_ms(base_ms: float, said: Sequence[Said], tenant: str, now_ms: float) -> float:
    """The tenant's target now. What was said longer ago than `LASTS_MS` no longer counts."""
    factor = 1.0
    for entry in sorted(said, key=lambda s: s.at_ms):
        if entry.tenant != tenant or not 0.0 <= now_ms - entry.at_ms < LASTS_MS:
            continue
        if entry.word == "too-slow":
            factor *= STEP
        elif entry.word == "batch":
            factor /= STEP
    return base_ms * min(max(factor, TIGHTEST), LOOSEST)


def kept(said: Sequence[Said], now_ms: float) -> tuple[Said, ...]:
    """Only what still counts, oldest first."""
    return tuple(sorted((s for s in said if now_ms - s.at_ms < LASTS_MS), key=lambda s: (s.at_ms, s.tenant)))
