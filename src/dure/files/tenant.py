"""The kind Tenant: who owns workloads, with weight, quota, budgets, isolation and roles."""

from __future__ import annotations

from dure.files.quantities import CARBON_MONTH, MONEY_MONTH
from dure.files.shapes import NAME, Choice, Flag, Key, MapOf, Number, Quantity, Record, Whole
from dure.model.tenant import Budget, Isolation, Role, Tenant

BUDGET = Record(
    "What a tenant may spend in a calendar month (UTC); a key left out is without limit.",
    (
        Key("money", Quantity(MONEY_MONTH), "Money in the fleet's currency.", "money_micros"),
        Key("carbon", Quantity(CARBON_MONTH), "Greenhouse gas, as CO2 equivalent.", "carbon_g"),
    ),
    Budget,
)

SPEC_KEYS = (
    Key("weight", Number(above=True, most=1e6), "Share of the fleet in relation to other tenants; 1 if left out."),
    Key("quota", MapOf(Whole()), "Devices of each class that are the tenant's own."),
    Key("borrow", Flag(), "Whether it may use what others leave idle; true if left out."),
    Key("budget", BUDGET, "Monthly limits."),
    Key("isolation", Choice(Isolation), "What it shares with other tenants; 'shared' if left out."),
    Key("roles", MapOf(Choice(Role)), "Role of each user or group."),
)

TENANT = Record(
    "A tenant of the fleet.", (Key("name", NAME, "The tenant's name.", required=True), *SPEC_KEYS), Tenant
)
SPEC = Record("What the tenant owns and may spend.", SPEC_KEYS, dict)
