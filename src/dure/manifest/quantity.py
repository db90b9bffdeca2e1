"""Kubernetes quantities and durations as numbers; None for what is neither."""

from __future__ import annotations

import re
from typing import Any

_SUFFIX = {
    "": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50,
}  # fmt: skip
_QUANTITY = re.compile(r"([0-9]*\.?[0-9]+)([kMGTP]i?|Ki|m)?")
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|h|m|s))+")
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|h|m|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def quantity(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    found = _QUANTITY.fullmatch(value.strip()) if isinstance(value, str) else None
    return float(found[1]) * _SUFFIX[found[2] or ""] if found else None


def seconds(value: Any) -> float | None:
    """Go durations (`1h30m`); a bare number is seconds; `Never` is endless."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str):
        return None
    if value == "Never":
        return float("inf")
    if not _DURATION.fullmatch(value):
        return float(value) if value.isdigit() else None
    return sum(float(part) * _SECONDS[unit] for part, unit in _PART.findall(value))
