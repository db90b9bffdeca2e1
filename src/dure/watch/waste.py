"""Where money went that no workload used: by pool and cause, with what to do about it. Pure.

`dure report` and the dashboard call `waste` on a window of the ledger. Cost: O(postings).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dure.model.posting import Account, Posting
from dure.model.units import Grams, Micros

_ADVICE = {
    Account.IDLE: "Fewer nodes, or let work wait for them: dure advise; dure scale nodes",
    Account.STARTING: "Keep models near (caches, warm spares) or start fewer, longer jobs",
    Account.LEAVING: "Moves and reclaims held devices: dure why WORKLOAD, checkpoint more often",
    Account.STRANDED: "Slices larger than their tenants, or broken devices: dure defrag plan; dure get devices",
    Account.BUILDING: "Cooling and power supply: run where PUE is lower",
}


class Waste(msgspec.Struct, frozen=True):
    """`part` is of what was paid for the pool."""

    cluster: str
    pool: str
    cause: Account
    micros: Micros
    carbon_g: Grams
    device_hours: float
    part: float
    advice: str


class Use(msgspec.Struct, frozen=True):
    """How well what was paid for was used."""

    cluster: str
    pool: str
    paid_micros: Micros
    used_micros: Micros
    idle_micros: Micros
    overhead_micros: Micros
    device_hours: float
    used_hours: float

    @property
    def utilisation(self) -> float:
        return self.used_hours / self.device_hours if self.device_hours else 0.0


def waste(postings: Iterable[Posting]) -> tuple[Waste, ...]:
    """The dearest first."""
    found: dict[tuple[str, str, Account], list[float]] = {}
    paid: dict[tuple[str, str], int] = {}
    for one in postings:
        if one.account is Account.PAID:
            paid[one.cluster, one.pool] = paid.get((one.cluster, one.pool), 0) + one.micros
        elif one.account is not Account.USED:
            sums = found.setdefault((one.cluster, one.pool, one.account), [0, 0.0, 0.0])
            sums[0] += one.micros
            sums[1] += one.carbon_mg / 1000
            sums[2] += one.device_hours
    made = [
        Waste(*key, int(micros), grams, hours, micros / max(1, paid.get(key[:2], 0)), _ADVICE[key[2]])
        for key, (micros, grams, hours) in found.items()
    ]
    return tuple(sorted(made, key=lambda one: (-one.micros, one.cluster, one.pool, one.cause)))


def use(postings: Iterable[Posting]) -> tuple[Use, ...]:
    """One line for each pool, by name."""
    sums: dict[tuple[str, str], dict[str, float]] = {}
    for one in postings:
        row = sums.setdefault((one.cluster, one.pool), {})
        group = one.account.group
        row[group] = row.get(group, 0) + one.micros
        row[f"{group} hours"] = row.get(f"{group} hours", 0.0) + one.device_hours
    return tuple(
        Use(
            *key, int(row.get("paid", 0)), int(row.get("used", 0)), int(row.get("idle", 0)),
            int(row.get("overhead", 0)), row.get("paid hours", 0.0), row.get("used hours", 0.0),
        )
        for key, row in sorted(sums.items())
    )  # fmt: skip
