"""Kubernetes quantities ("500m", "2Gi", "8") as integers."""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation
from functools import lru_cache

from dure.model.errors import InvalidInput
from dure.model.units import MiB, Milli

_SUFFIX = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}


@lru_cache(maxsize=4096)
def amount(text: str) -> Decimal:
    digits = text.rstrip("numkMGTPEi")
    suffix = text[len(digits) :]
    try:
        return Decimal(digits) * (_SUFFIX[suffix] if suffix else 1)
    except (InvalidOperation, KeyError) as error:
        raise InvalidInput(f"'{text}' is not a Kubernetes quantity") from error


def count(text: str) -> int:
    return int(amount(text))


def milli(text: str) -> Milli:
    """Rounded up, as the API server does with what it cannot express."""
    return math.ceil(amount(text) * 1000)


def mib(text: str) -> MiB:
    """A request is rounded up to whole MiB."""
    return math.ceil(amount(text) / (1 << 20))


def mib_down(text: str) -> MiB:
    """What a node has is rounded down."""
    return int(amount(text) // (1 << 20))
