"""Seats that are promised: of gangs, written down before the first member is bound; of single pods, for a moment.

A gang's seats are one write into its Placement, so they are there for all members or for none. Whoever finds them,
even an agent that starts anew, binds the rest. They go by index, not by name: a member that its Job makes again gets
the seat that was kept for it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dure.adapters.kube.objects import KubePlacement
from dure.model.claim import Allotted
from dure.model.cluster import Slice


class Seat(msgspec.Struct, frozen=True, omit_defaults=True):
    node: str
    slices: tuple[Slice, ...]
    claims: tuple[Allotted, ...] = ()


class Reserved(msgspec.Struct, frozen=True):
    generation: int
    seats: dict[str, Seat]


def reserved_of(placement: KubePlacement) -> dict[int, Seat]:
    """By index; none when the reservation is of an earlier generation."""
    raw = placement.status.get("reserved")
    if not raw:
        return {}
    try:
        reserved = msgspec.convert(raw, Reserved)
    except msgspec.ValidationError:
        return {}
    if reserved.generation != placement.spec.get("generation"):
        return {}
    return {int(index): seat for index, seat in reserved.seats.items()}


def reservation(generation: int, seats: dict[int, Seat]) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(
        Reserved(generation, {str(index): seat for index, seat in sorted(seats.items())})
    )
    return plain
