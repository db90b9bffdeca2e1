"""What the API needs from the rest of Dure, as two Protocols.

The embedded fleet and the plane implement it; the API knows neither. Calls are synchronous and short: reads come
from memory or one indexed query. Those that may take longer (`plan`, `submit`, `apply`) are run in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from dure.device.board import Feedback, Moved, ShareStatus, ShareView, Squads, Timeline
from dure.model.answer import FleetStatus, Plan, Why
from dure.model.catalogue import Catalogue
from dure.model.errors import DureError
from dure.model.fleet import Fleet
from dure.model.units import Instant
from dure.model.workload import Workload, WorkloadRecord
from dure.ports import StorePort, Wish
from dure.watch.drift import Pair

Listener = Callable[[], None]
Unsubscribe = Callable[[], None]


class Backend(Protocol):
    """Raises only the errors of `dure.model.errors`; safe to call from several threads."""

    @property
    def store(self) -> StorePort: ...

    def fleet(self) -> Fleet: ...

    def catalogue(self) -> Catalogue: ...

    def now(self) -> Instant: ...

    def ready(self) -> bool:
        """Whether the store answers and the loop has seen the fleet at least once."""
        ...

    def plan(self, workload: Workload) -> Plan:
        """What would happen; changes nothing."""
        ...

    def submit(self, workload: Workload, key: str) -> WorkloadRecord:
        """The same non-empty `key` answers the first record again."""
        ...

    def submit_all(self, wishes: Sequence[Wish]) -> list[WorkloadRecord | DureError]:
        """What `submit` would answer or raise for each, kept by one transaction."""
        ...

    def cancel(self, name: str) -> WorkloadRecord:
        """The record after it was asked to stop; `Conflict` when it has ended already."""
        ...

    def why(self, name: str) -> Why: ...

    def with_kept_eta(self, record: WorkloadRecord) -> WorkloadRecord | None: ...

    def with_eta(self, records: Sequence[WorkloadRecord]) -> Sequence[WorkloadRecord]:
        """The same records, each that waits or runs with its expected start and finish."""
        ...

    def status(self) -> FleetStatus: ...

    def subscribe(self, listener: Listener) -> Unsubscribe:
        """Call `listener` after every commit that wrote an event, from any thread; it must not block.

        It is a wake-up, not a message: whoever is woken reads the store, so a lost or doubled call does no harm.
        """
        ...


class Shares(Protocol):
    """Devices that run squads. `device` None means the one most worth looking at; errors as above."""

    def list_devices(self) -> tuple[ShareStatus, ...]: ...

    def list_foretold(self) -> tuple[Pair, ...]:
        """Predictions of equation 1 with what came of them."""
        ...

    def fetch_status(self, device: str | None = None) -> ShareStatus: ...

    def set_policy(self, policy: str, device: str | None = None) -> ShareStatus: ...

    def fetch_squads(self, after: int = 0, device: str | None = None) -> Squads: ...

    def fetch_timeline(self, window_ms: float, device: str | None = None) -> Timeline: ...

    def fetch_view(self, window_ms: float, device: str | None = None) -> ShareView:
        """Never an error: where the device is gone, another is shown; where there is none, nothing."""
        ...

    def say(self, given: Feedback, device: str | None = None) -> Moved: ...
