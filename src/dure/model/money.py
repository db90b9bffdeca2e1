"""Money in integers of 1e-6 of a currency unit; conversion is explicit and never guessed.

Floats appear only while a price is multiplied by a duration; the product is rounded half to even once.
"""

from __future__ import annotations

import msgspec

from dure.model.errors import InvalidInput
from dure.model.units import MICROS, Micros, Seconds


class Rates(msgspec.Struct, frozen=True):
    """How many units of `base` one unit of another currency is worth."""

    base: str = "KRW"
    per_unit: dict[str, float] = {}

    def convert(self, amount: Micros, currency: str) -> Micros:
        """`amount` of `currency` in the base currency; an unknown currency is an error, not a 1."""
        if currency == self.base:
            return amount
        rate = self.per_unit.get(currency)
        if rate is None:
            known = ", ".join(sorted({self.base, *self.per_unit}))
            raise InvalidInput(
                f"no exchange rate from {currency} to {self.base}; known: {known}",
                remedy=f"Add it to the fleet: spec.exchange: {{{currency}: 1380}}",
            )
        return round(amount * rate)


def for_duration(per_hour: Micros, duration_s: Seconds) -> Micros:
    return round(per_hour * duration_s / 3600)


def show(amount: Micros, currency: str = "") -> str:
    """`412000000000 -> '412,000'`; small amounts keep two digits."""
    units = amount / MICROS
    text = f"{units:,.0f}" if abs(units) >= 100 or amount % MICROS == 0 else f"{units:,.2f}"
    return f"{text} {currency}" if currency else text
