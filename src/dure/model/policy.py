"""A named, versioned set of goals and weights for one verb. The plane keeps every version."""

from __future__ import annotations

import enum

import msgspec

from dure.model.units import Instant, Micros, Seconds
from dure.model.workload import WorkloadType


class Term(enum.StrEnum):
    """The parts of a bill that an owner may weigh."""

    MONEY = "money"
    CARBON = "carbon"
    SLA = "sla"
    REWORK = "rework"
    REUSE = "reuse"


class Goal(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the fleet's owner wants for some workloads. Selectors (`tenants` to `min_priority`) left out match all.

    Limits of every goal that matches hold together; of weights and of `start_within_s` the last one that names them
    counts. `max_price_micros` is per device and hour in the fleet's currency.
    """

    tenants: tuple[str, ...] = ()
    types: tuple[WorkloadType, ...] = ()
    models: tuple[str, ...] = ()
    min_priority: int | None = None
    weights: dict[Term, float] = {}
    clusters: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    spot: bool = True
    max_g_per_kwh: float | None = None
    max_price_micros: Micros | None = None
    start_within_s: Seconds | None = None


class Verb(enum.StrEnum):
    PLACE = "place"
    PACK = "pack"
    SHARE = "share"
    SCALE = "scale"
    ROUTE = "route"


class Policy(msgspec.Struct, frozen=True, omit_defaults=True):
    """`settings` are read by the algorithm of the same verb, which refuses keys it does not know; `goals` by `place`.

    `changed_by` and `changed_s` say who made this version and when; a document does not name them.
    """

    name: str
    verb: Verb
    algorithm: str = "default"
    settings: dict[str, float | int | str | bool] = {}
    goals: tuple[Goal, ...] = ()
    version: int = 1
    paused: bool = False
    changed_by: str = ""
    changed_s: Instant = 0.0
