"""Numbers with units as people write them: `18GiB`, `50%`, `400ms`, `2100/h`, `90000/tCO2e`, `40M/month`.

Each `Unit` reads text into the plain number that the model holds and writes it back to the same text. All
arithmetic is decimal: money is exact to 1e-6 of a unit or refused. Used by `shapes`.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

import msgspec

from dure.model.units import MICROS

# Far beyond any real fleet; keeps integers inside 64 bits so that stores and wire formats can hold them.
_LARGEST = Decimal(10) ** 18
_SCALES = {"": Decimal(1), "k": Decimal(10) ** 3, "M": Decimal(10) ** 6, "G": Decimal(10) ** 9}
_NUMBER = r"[0-9]+(?:\.[0-9]+)?|\.[0-9]+"


class Unit(msgspec.Struct, frozen=True):
    """One kind of quantity.

    `factors` gives for each suffix what one of it is in the model's unit. `writes` are the suffixes to write with:
    the first that divides the value evenly, else the last. `bare` is the suffix meant by a plain number.
    """

    name: str
    factors: dict[str, Decimal]
    example: str
    writes: tuple[str, ...]
    whole: bool = False
    scaled: bool = False
    bare: str | None = None
    most: Decimal = _LARGEST

    def read(self, found: object) -> int | float:
        """The value in the model's unit. Raises `ValueError` with a sentence that names what is allowed."""
        number, suffix = self._split(found)
        factor = self.factors.get(suffix)
        if factor is None:
            what = f"the unit '{suffix}' is not one of {self.name}" if suffix else f"{self.name} needs a unit"
            raise ValueError(f"{what}; allowed: {self.allowed}")
        value = number * factor
        if value > self.most:
            raise ValueError(f"too much: at most {self.write(float(self.most))}")
        if not self.whole:
            return float(value)
        if value != value.to_integral_value():
            raise ValueError(f"too fine: the smallest step is {self._step()}")
        return int(value)

    def write(self, value: float) -> str:
        """Text that `read` turns into exactly this value again."""
        exact = Decimal(repr(value))
        for suffix in self.writes[:-1]:
            if exact and exact % self.factors[suffix] == 0:
                return f"{_plain(exact / self.factors[suffix])}{suffix}"
        return f"{_plain(exact / self.factors[self.writes[-1]])}{self.writes[-1]}"

    @property
    def allowed(self) -> str:
        return ", ".join(self.factors)

    @property
    def pattern(self) -> str:
        """The regular expression of the JSON Schema."""
        scale = "[kMG]?" if self.scaled else ""
        units = "|".join(re.escape(suffix) for suffix in self.factors)
        return f"^ *({_NUMBER}){scale} ?({units}) *$"

    def _split(self, found: object) -> tuple[Decimal, str]:
        if isinstance(found, bool) or not isinstance(found, (str, int, float)):
            raise ValueError(f"{self.name} is written like {self.example}")
        if not isinstance(found, str):
            if not math.isfinite(found):
                raise ValueError(f"{found} is not a number")
            if found < 0:
                raise ValueError(f"{self.name} may not be negative")
            return Decimal(repr(found)), self.bare or ""
        text = found.strip()
        if text.startswith("-"):
            raise ValueError(f"{self.name} may not be negative")
        match = _QUANTITY.fullmatch(text) if len(text) <= 60 else None
        if match is None:
            raise ValueError(f"{self.name} is written like {self.example}")
        number, suffix = Decimal(match[1]), match[2]
        if self.scaled and suffix[:1] in _SCALES and suffix[1:] in self.factors:
            return number * _SCALES[suffix[:1]], suffix[1:]
        return number, suffix if suffix or self.bare is None else self.bare

    def _step(self) -> str:
        return f"{_plain(1 / self.factors[self.writes[-1]])}{self.writes[-1]}"


_QUANTITY = re.compile(rf"({_NUMBER}) ?(\S*)")


def _plain(number: Decimal) -> str:
    text = f"{number.normalize():f}"
    return "0" if text == "-0" else text


def _money(name: str, example: str, **factors: str) -> Unit:
    micros = {f"/{suffix}": Decimal(factor) * MICROS for suffix, factor in factors.items()}
    return Unit(name, micros, example, (next(iter(micros)),), whole=True, scaled=True)


def _of(**factors: str) -> dict[str, Decimal]:
    return {suffix: Decimal(factor) for suffix, factor in factors.items()}


def _percent(name: str, example: str, suffix: str) -> Unit:
    return Unit(name, {suffix: Decimal("0.01")}, example, (suffix,), most=Decimal(1))


_BINARY = _of(GiB="1024", MiB="1", TiB="1048576", Gi="1024", Mi="1", Ti="1048576")
_PER_TIME = {"/s": Decimal(1), "/min": Decimal(1) / 60, "/h": Decimal(1) / 3600}
_PER_MONTH = {"t/month": Decimal(10**6), "kg/month": Decimal(1000), "g/month": Decimal(1)}

MEMORY: Final = Unit("memory", _BINARY, "18GiB", ("GiB", "MiB"), whole=True)
SHARE: Final = Unit("a share of a device", {"%": Decimal(10)}, "50%", ("%",), whole=True)
FRACTION: Final = _percent("a percentage", "99.9%", "%")
HOURLY_CHANCE: Final = _percent("a chance per hour", "4%/h", "%/h")
DURATION: Final = Unit(
    "a duration", _of(s="1", ms="0.001", min="60", m="60", h="3600", d="86400"), "3h", ("d", "h", "min", "s")
)
MILLISECONDS: Final = Unit("a latency", _of(ms="1", s="1000"), "400ms", ("ms",))
RATE: Final = Unit("a rate", _PER_TIME, "12/s", ("/s",), scaled=True)
CORES: Final = Unit("CPU cores", {"": Decimal(1000), "m": Decimal(1)}, "8 or 500m", ("", "m"), whole=True, bare="")
POWER: Final = Unit("power", _of(W="1", kW="1000"), "700W", ("W",))
BANDWIDTH: Final = Unit("bandwidth", {"GB/s": Decimal(1), "TB/s": Decimal(1000)}, "3350GB/s", ("GB/s",))
INTENSITY: Final = Unit("a carbon intensity", {"g/kWh": Decimal(1)}, "250g/kWh", ("g/kWh",))
PRICE_HOUR: Final = _money("a price per device and hour", "2100/h", h="1")
PRICE_KWH: Final = _money("a price of electricity", "140/kWh", kWh="1", MWh="0.001")
PRICE_GIB: Final = _money("a price of traffic", "120/GiB", GiB="1")
PRICE_CARBON: Final = _money("a carbon price", "90000/tCO2e", tCO2e="0.001", t="0.001", kgCO2e="1", kg="1")
MONEY_MONTH: Final = _money("a money budget", "40M/month", month="1")
CARBON_MONTH: Final = Unit("a carbon budget", _PER_MONTH, "2t/month", ("t/month", "kg/month", "g/month"))
