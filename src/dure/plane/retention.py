"""Follows the owner's wish for how long the past is kept: cuts it off from time to time.

The process of the plane calls `turn`. A cut tells everything that stands once more in the audit log, so it is made
only when there is a tenth of the kept time to gain. It never touches the past of a workload that has not ended, but
cuts less. Several replicas may try at once: the store lets one write at a time, and the others find nothing to do.
"""

from __future__ import annotations

from typing import Protocol

from dure.model.pruned import PRUNED_SETTING, Pruned
from dure.model.units import DAY_S, HOUR_S, Instant, Seconds

# Forecasts look back this far by the hour; what is cut off has no hours any more.
LEAST_S = 35.0 * DAY_S
_PART = 10


class Prunable(Protocol):
    """What the SQL stores can do beyond `StorePort`."""

    def fetch_setting(self, name: str) -> str | None: ...

    def latest_cut(self, cut_s: Instant) -> Instant:
        """The latest moment up to `cut_s` at which a cut touches no workload that has not ended."""
        ...

    def prune(self, cut_s: Instant, now_s: Instant, *, dry_run: bool = False) -> Pruned: ...


class Retention:
    def __init__(self, store: Prunable, keep_s: Seconds) -> None:
        self._store, self._keep_s = store, keep_s
        self._looked_s: Instant | None = None

    def turn(self, now_s: Instant) -> Pruned | None:
        """What was cut off; None when it is not time. Looks once an hour of the clock."""
        if self._looked_s is not None and now_s - self._looked_s < HOUR_S:
            return None
        self._looked_s = now_s
        kept = self._store.fetch_setting(PRUNED_SETTING)
        cut_s = self._store.latest_cut(now_s - self._keep_s)
        if kept is not None and cut_s - float(kept) < self._keep_s / _PART:
            return None
        return self._store.prune(cut_s, now_s) or None
