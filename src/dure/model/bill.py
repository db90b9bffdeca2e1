"""What an option costs, term by term, in one currency; carbon also in grams.

`place` computes it, `plan` and `why` show it, the ledger checks it afterwards.
"""

from __future__ import annotations

import msgspec

from dure.model.units import Grams, Micros, WattHours


class Bill(msgspec.Struct, frozen=True, omit_defaults=True):
    """Every field but the last two is money. `carbon_unknown` marks hours without a carbon figure."""

    direct: Micros = 0
    energy: Micros = 0
    carbon: Micros = 0
    sla: Micros = 0
    rework: Micros = 0
    migration: Micros = 0
    traffic: Micros = 0
    warm_saved: Micros = 0
    data_saved: Micros = 0
    carbon_g: Grams = 0.0
    energy_wh: WattHours = 0.0
    carbon_unknown: bool = False

    @property
    def total(self) -> Micros:
        costs = self.direct + self.energy + self.carbon + self.sla + self.rework + self.migration + self.traffic
        return costs - self.warm_saved - self.data_saved

    @property
    def outlay(self) -> Micros:
        """Before what is saved elsewhere by what is already there; never negative, so it is what people are told."""
        return self.total + self.reuse

    @property
    def reuse(self) -> Micros:
        return self.warm_saved + self.data_saved
