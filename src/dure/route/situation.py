"""What a routing policy may look at: the queues' figures, what runs and waits in them, and the job itself.

Built by the gateway from watches and by the simulator from its own state; policies cannot tell which.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from dure.model.units import Instant, Seconds
from dure.route.amounts import Amounts
from dure.route.stayed import Stayed


class Running(msgspec.Struct, frozen=True):
    """Holds quota. `ends_s` is when it is expected to give it back, at its `pace`: 2 is half as fast as alone."""

    name: str
    demand: Amounts
    ends_s: Instant
    pace: float = 1.0

    def until_s(self, now_s: Instant, slower: float) -> Instant:
        """When it ends if from now on it is so much slower than alone."""
        return now_s + max(0.0, self.ends_s - now_s) * slower / self.pace


class Waiting(msgspec.Struct, frozen=True):
    """Waits for quota; the queue serves higher `priority` first, then higher `rank`, then earlier `created_s`.

    `rank` is the place that a plan gave it; 0 is nobody's plan, behind all that were put in order.
    """

    name: str
    demand: Amounts
    run_s: Seconds
    created_s: Instant
    priority: int = 0
    rank: int = 0


Rank: TypeAlias = Callable[[Waiting], tuple[float, ...]]


class Order(enum.StrEnum):
    """Whom a queue serves first among jobs of one priority."""

    AS_IT_STANDS = "as-it-stands"
    FIRST_COME = "first-come"
    LONGEST_FIRST = "longest-first"

    @property
    def rank(self) -> Rank:
        """What to sort by: a plain function, because every submission ranks what waits."""
        return _RANKS[self]


def _as_it_stands(job: Waiting) -> tuple[float, ...]:
    return (-job.priority, -job.rank, job.created_s)


def _first_come(job: Waiting) -> tuple[float, ...]:
    return (-job.priority, job.created_s)


def _longest_first(job: Waiting) -> tuple[float, ...]:
    return (-job.priority, -job.run_s, job.created_s)


_RANKS: Mapping[Order, Rank] = {
    Order.AS_IT_STANDS: _as_it_stands,
    Order.FIRST_COME: _first_come,
    Order.LONGEST_FIRST: _longest_first,
}


class Lane(msgspec.Struct, frozen=True):
    """One queue as a server of jobs.

    `waiting` is in the order in which the queue serves; `hidden_s` is further work ahead, in seconds until served, of
    a queue too long to list. `quiet` jobs run at full speed; with more than that they share nodes and may take
    `slowdown` times as long. `orderable`: all that waits is the gateway's own and nothing is preempted, so
    the order may be changed without taking anything from anybody else. `stayed` is this queue had nobody been moved.
    """

    name: str
    capacity: Amounts
    running: tuple[Running, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    hidden_s: Seconds = 0.0
    quiet: int = 0
    slowdown: float = 1.0
    order: Order = Order.AS_IT_STANDS
    orderable: bool = False
    stayed: Stayed | None = None

    @property
    def rank(self) -> Rank:
        return self.order.rank

    def kept_s(self, job: Candidate) -> Seconds:
        """Time that a guest has to leave here for those who name this queue: as much again as came of them lately."""
        return self.stayed.work_s if self.stayed is not None and self._guest(job) else 0.0

    def has_room(self, job: Candidate, standing: int, now_s: Instant) -> bool:
        """With so many here, itself among them, a guest leaves as many slots free as those hold who name this queue.

        They may run long: one that finds all slots taken by guests would wait for a whole run of theirs.
        """
        if self.stayed is None or not self._guest(job):
            return True
        kept = self.stayed.busy(now_s)
        return not kept or standing + kept <= len(self.stayed.free_s)

    def _guest(self, job: Candidate) -> bool:
        return bool(job.origin) and job.origin != self.name


class Figures(msgspec.Struct, frozen=True):
    """The counters that a queue publishes of itself. `free` is quota minus reservation, by resource."""

    name: str
    free: Amounts
    pending: int = 0
    reserving: int = 0
    active: bool = True
    why_not: str = ""


class Changes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """What a Job needs to run on another class. `None` as a value removes the entry."""

    resources: Mapping[str, str | int | None] = {}
    env: Mapping[str, str | None] = {}
    node_selector: Mapping[str, str | None] = {}
    annotations: Mapping[str, str | None] = {}
    image: str = ""
    name: str = ""

    @property
    def recreates(self) -> bool:
        """The API server lets a suspended Job change its resources and labels only."""
        return bool(self.env or self.node_selector or self.annotations or self.image or self.name)


class Alternative(msgspec.Struct, frozen=True):
    """One way to run the job: a LocalQueue, the ClusterQueue behind it (`lane`), and how long it will take there."""

    class_name: str
    queue: str
    lane: str
    demand: Amounts
    run_s: Seconds
    changes: Changes = Changes()
    known: bool = False


class Candidate(msgspec.Struct, frozen=True):
    """A job to be routed; the first alternative is its home, where it goes when nothing speaks against it.

    While it waits the queue it stands in counts as its home; `origin` is the ClusterQueue that it named itself.
    """

    name: str
    namespace: str
    kind: str
    alternatives: tuple[Alternative, ...]
    created_s: Instant = 0.0
    priority: int = 0
    moves: int = 0
    origin: str = ""

    @property
    def home(self) -> Alternative:
        return self.alternatives[0]

    @property
    def light(self) -> bool:
        return len(self.alternatives) > 1


class Situation(msgspec.Struct, frozen=True):
    now_s: Instant
    lanes: Mapping[str, Lane]
    figures: Mapping[str, Figures]


class Offer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one alternative would mean. `refused` says why it was not looked at further."""

    queue: str
    class_name: str
    start_s: Instant | None = None
    finish_s: Instant | None = None
    score: float | None = None
    refused: str = ""


class Choice(msgspec.Struct, frozen=True):
    """Which alternative, by which rule, and what was seen. `rule` is a stable word, `because` a sentence."""

    index: int
    rule: str
    because: str
    offers: tuple[Offer, ...] = ()
    eta_s: Instant | None = None
    saw: Mapping[str, Any] = {}
