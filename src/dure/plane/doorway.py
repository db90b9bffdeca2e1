"""How long the queue of a tenant may get: whoever submits faster than the fleet can take is told to come back later.

The desk asks before it keeps a group of submissions. Without a bound a queue that grows takes memory and the time of
every turn with it, and one tenant would slow all others down. What came in since the queue was last counted is added,
what left it is not, so that it is counted rarely: where somebody would be refused, and after every tenth of the bound
because there may be other replicas. Groups that are kept at the same moment may pass the bound by their size.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from dure.model.errors import Crowded
from dure.model.units import Seconds
from dure.ports import StorePort

# A queue that was found full is not counted again before so many seconds; whoever was refused waits longer.
FULL_S: Seconds = 1.0
_TENTH = 10


class Doorway:
    """`most` workloads of a tenant may wait; None lets everybody in and counts nobody."""

    def __init__(self, store: StorePort, most: int | None, timer: Callable[[], float] = time.monotonic) -> None:
        self._store, self._most, self._timer = store, most, timer
        self._lock = threading.Lock()
        self._counted: dict[str, tuple[int, float]] = {}
        self._since: dict[str, int] = {}

    def refusals(self, tenants: Sequence[str]) -> list[Crowded | None]:
        """For each of a group, by its tenant, what it is told; None lets it in, and it counts."""
        if self._most is None:
            return [None] * len(tenants)
        with self._lock:
            for tenant in set(tenants):
                if self._stale(tenant, tenants.count(tenant), self._most):
                    self._counted[tenant] = self._store.count_waiting(tenant), self._timer()
                    self._since[tenant] = 0
            return [self._refusal(tenant, self._most) for tenant in tenants]

    def _stale(self, tenant: str, coming: int, most: int) -> bool:
        if tenant not in self._counted:
            return True
        (counted, at), since = self._counted[tenant], self._since[tenant]
        if since * _TENTH >= most:
            return True
        return counted + since + coming > most and self._timer() - at >= FULL_S

    def _refusal(self, tenant: str, most: int) -> Crowded | None:
        if self._counted[tenant][0] + self._since[tenant] < most:
            self._since[tenant] += 1
            return None
        return Crowded(
            f"{most} workloads of tenant '{tenant}' wait already",
            remedy="Submit again when some of them have started, or cancel those that are no longer wanted.",
        )
