"""What happens to a workload after it was placed, one idea each, in the order in which the loop lets them act."""

from __future__ import annotations

from typing import TypeAlias

from dure.plane.foretelling import Foretelling
from dure.plane.moving import Moving
from dure.plane.observe import Observer
from dure.plane.stretching import Stretching

Later: TypeAlias = Moving | Stretching | Foretelling


def later_of(observer: Observer, *, foretell: bool = True) -> tuple[Later, ...]:
    """Foretelling changes no decision: without anybody to tell it can be left out."""
    deciding: tuple[Later, ...] = (Moving(observer), Stretching(observer))
    return (*deciding, Foretelling(observer)) if foretell else deciding
