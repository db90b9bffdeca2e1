"""Kubernetes quantities as whole thousandths, and sums of them: `500m`, `4`, `60Gi` all add up exactly.

Used wherever a quota meets a request. Comparing dictionaries by key keeps every resource that anybody names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from dure.model import quantity as kubernetes
from dure.model.errors import InvalidInput

Amounts: TypeAlias = Mapping[str, int]


def milli(quantity: Any, where: str = "") -> int:
    """`'500m' -> 500`, `4 -> 4000`, `'1Gi' -> 1073741824000`; rounded up like Kubernetes does."""
    text = "" if isinstance(quantity, bool) else str(quantity).strip()
    try:
        return kubernetes.milli(text)
    except InvalidInput as error:
        remedy = "Write it like 4, 500m, 16Gi or 1.5."
        raise InvalidInput(f"'{quantity}' is not a quantity", where=where, remedy=remedy) from error


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
