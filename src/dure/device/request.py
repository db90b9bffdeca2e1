"""A request on its way through the executor, and what a busy lane is doing. State of the executor's thread."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from dure.adapters.pieces import Spot
from dure.model.errors import DureError, Temporary
from dure.share.squad import Member


class Request:
    """One request of a tenant: its inputs until they are sent, how far it has come, and who waits for it."""

    def __init__(self, number: int, inputs: Mapping[str, Any], at_ms: float) -> None:
        self.number = number
        self.inputs: Mapping[str, Any] | None = inputs
        self.at_ms = at_ms
        self.next = 0
        self.future: Future[dict[str, Any]] = Future()

    def fail(self, why: str | DureError) -> None:
        """A text is what happened to the tenant's process."""
        if not self.future.done():
            again = "The tenant's process was started again; try again."
            self.future.set_exception(why if isinstance(why, DureError) else Temporary(why, remedy=again))


class Running:
    """What a busy lane is doing. `since_ms` is when it last began, stopped or changed its row; `paused_ms` is all of
    its stops, `behind_ms` all of its time in the second row; `spot` where it runs, on a GPU."""

    def __init__(
        self,
        member: Member,
        squad: int,
        start_ms: float,
        first: int,
        neighbours: tuple[tuple[str, float], ...],
        spot: Spot | None = None,
    ) -> None:
        self.member = member
        self.squad = squad
        self.start_ms = start_ms
        self.first = first
        self.neighbours = neighbours
        self.spot = spot
        self.since_ms = start_ms
        self.paused_ms = 0.0
        self.behind_ms = 0.0

    def ran_ms(self, now_ms: float) -> float:
        """How long it has run in all with threads of its own; only while it does."""
        return now_ms - self.start_ms - self.paused_ms - self.behind_ms
