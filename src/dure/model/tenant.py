"""Who owns workloads: weight, quota with borrowing, budgets, isolation tier, roles."""

from __future__ import annotations

import enum

import msgspec

from dure.model.units import Grams, Micros, Milli


class Isolation(enum.StrEnum):
    """What a tenant shares with others. A virtual cluster is a control plane of its own on shared devices."""

    SHARED = "shared"
    OWN_DEVICE = "own-device"
    OWN_NODE = "own-node"
    OWN_CLUSTER = "own-virtual-cluster"

    @property
    def walls_devices(self) -> bool:
        return self in (Isolation.OWN_DEVICE, Isolation.OWN_NODE)

    @property
    def walls_nodes(self) -> bool:
        return self is Isolation.OWN_NODE


class Role(enum.StrEnum):
    VIEWER = "viewer"
    SUBMITTER = "submitter"
    OPERATOR = "operator"
    ADMIN = "admin"


class Budget(msgspec.Struct, frozen=True, omit_defaults=True):
    """Per calendar month (UTC); `None` is without limit."""

    money_micros: Micros | None = None
    carbon_g: Grams | None = None


class Tenant(msgspec.Struct, frozen=True, omit_defaults=True):
    """`quota` is devices per class; with `borrow` a tenant may use what others leave idle."""

    name: str
    weight: float = 1.0
    quota: dict[str, int] = {}
    borrow: bool = True
    budget: Budget = Budget()
    isolation: Isolation = Isolation.SHARED
    roles: dict[str, Role] = {}


class TenantUsage(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a tenant holds now and has spent this month, decided placements included."""

    tenant: str
    device_milli: dict[str, Milli] = {}
    spent_micros: Micros = 0
    carbon_g: Grams = 0.0
