"""Kubernetes quantities ("500m", "2Gi", "8", "1e3") as numbers: for manifests and for what a cluster reports."""

from __future__ import annotations

import math
import re
from decimal import Decimal
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


_QUANTITY = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?)([numkMGTPE]|[KMGTPE]i)?")


@lru_cache(maxsize=4096)
def amount(text: str) -> Decimal:
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise InvalidInput(f"'{text}' is not a Kubernetes quantity")
    return Decimal(found[1]) * (_SUFFIX[found[2]] if found[2] else 1)


def count(text: str) -> int:
    return int(amount(text))


@lru_cache(maxsize=4096)
def milli(text: str) -> Milli:
    """Rounded up, as the API server does with what it cannot express."""
    return math.ceil(amount(text) * 1000)


def mib(text: str) -> MiB:
    """A request is rounded up to whole MiB."""
    return math.ceil(amount(text) / (1 << 20))


def mib_down(text: str) -> MiB:
    """What a node has is rounded down."""
    return int(amount(text) // (1 << 20))
