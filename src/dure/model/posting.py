"""One line of the ledger: what a stretch of a pool's time cost, and which account it stands on.

Double entry: for every hour and pool the postings on `paid` equal the sum of all others, in money and in carbon.
`watch.books` makes them, the plane keeps them, reports and bills read them.
"""

from __future__ import annotations

import enum

import msgspec

from dure.model.units import Micros


class Account(enum.StrEnum):
    """`used`, `starting` and `leaving` belong to a workload; the others to a pool.

    `stranded` is held by nobody we know and yet not free (a slice larger than its tenant, a broken device);
    `building` is cooling and power supply, what PUE is above 1.
    """

    PAID = "paid"
    USED = "used"
    IDLE = "idle"
    STARTING = "starting"
    LEAVING = "leaving"
    STRANDED = "stranded"
    BUILDING = "building"

    @property
    def group(self) -> str:
        """paid, used, idle or overhead: the four words of the balance."""
        return self.value if self in (Account.PAID, Account.USED, Account.IDLE) else "overhead"


class Posting(msgspec.Struct, frozen=True, omit_defaults=True):
    """`hour` is hours since 1970 UTC. `device_ms` is thousandths of a device times milliseconds; energy is in mWh.

    `unknown_mwh` is the part of the energy whose grid had no carbon figure: unknown is not zero.
    """

    hour: int
    cluster: str
    pool: str
    account: Account
    tenant: str = ""
    model: str = ""
    workload: str = ""
    micros: Micros = 0
    carbon_mg: int = 0
    device_ms: int = 0
    energy_mwh: int = 0
    unknown_mwh: int = 0

    @property
    def device_hours(self) -> float:
        return self.device_ms / 3.6e9

    @property
    def key(self) -> tuple[int, str, str, str, str, str, str]:
        return (self.hour, self.cluster, self.pool, self.account, self.tenant, self.workload, self.model)


def added(one: Posting, other: Posting) -> Posting:
    """Two postings of the same key as one."""
    return msgspec.structs.replace(
        one,
        micros=one.micros + other.micros,
        carbon_mg=one.carbon_mg + other.carbon_mg,
        device_ms=one.device_ms + other.device_ms,
        energy_mwh=one.energy_mwh + other.energy_mwh,
        unknown_mwh=one.unknown_mwh + other.unknown_mwh,
    )
