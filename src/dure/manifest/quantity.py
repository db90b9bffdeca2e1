"""Kubernetes quantities and durations as numbers; None for what is neither."""

from __future__ import annotations

import re
from typing import Any

from dure.model.errors import InvalidInput
from dure.model.quantity import amount

_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|h|m|s))+")
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|h|m|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def quantity(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    try:
        found = float(amount(value.strip())) if isinstance(value, str) else None
    except InvalidInput:
        return None
    return found if found is not None and found >= 0 else None


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
