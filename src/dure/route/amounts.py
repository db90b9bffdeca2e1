"""Kubernetes quantities as whole thousandths, and sums of them: `500m`, `4`, `60Gi` all add up exactly.

Used wherever a quota meets a request. Comparing dictionaries by key keeps every resource that anybody names.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

from dure.model.errors import InvalidInput

Amounts: TypeAlias = Mapping[str, int]

_QUANTITY = re.compile(r"^([+-]?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|u|n|)$")
_SCALE = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10) ** 3,
    "M": Decimal(10) ** 6,
    "G": Decimal(10) ** 9,
    "T": Decimal(10) ** 12,
    "P": Decimal(10) ** 15,
    "E": Decimal(10) ** 18,
    "Ki": Decimal(2) ** 10,
    "Mi": Decimal(2) ** 20,
    "Gi": Decimal(2) ** 30,
    "Ti": Decimal(2) ** 40,
    "Pi": Decimal(2) ** 50,
    "Ei": Decimal(2) ** 60,
}
_THOUSAND = Decimal(1000)


def milli(quantity: Any, where: str = "") -> int:
    """`'500m' -> 500`, `4 -> 4000`, `'1Gi' -> 1073741824000`; rounded up like Kubernetes does."""
    try:
        found = None if isinstance(quantity, bool) else _milli(str(quantity).strip())
    except (InvalidOperation, OverflowError) as error:
        raise InvalidInput(f"'{quantity}' is too large", where=where) from error
    if found is None:
        raise InvalidInput(
            f"'{quantity}' is not a quantity", where=where, remedy="Write it like 4, 500m, 16Gi or 1.5."
        )
    return found


@functools.lru_cache(maxsize=4096)
def _milli(text: str) -> int | None:
    match = _QUANTITY.match(text)
    if match is None:
        return None
    value = Decimal(match[1]) * _SCALE[match[2]] * _THOUSAND
    rounded = int(value)
    return rounded + 1 if rounded < value else rounded


def whole(amount: int) -> int | float:
    """Thousandths as a plain number: an integer where it is one."""
    return amount // 1000 if amount % 1000 == 0 else amount / 1000


def added(parts: Iterable[Amounts]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total


def times(amounts: Amounts, count: int) -> dict[str, int]:
    return {name: amount * count for name, amount in amounts.items()}


def fits(demand: Amounts, free: Amounts) -> bool:
    """A resource that the queue does not cover has no room at all."""
    return all(amount <= free.get(name, 0) for name, amount in demand.items() if amount > 0)
