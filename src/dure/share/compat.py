"""Who should run beside whom: the compatibility matrix and the members of a squad.

Two tenants are compatible when running together gets more done than taking turns: the sum of their speeds, each
limited by the SMs it needs and slowed by equation 1, is above one. A squad takes tenants in the policy's order and
keeps one only if the squad's total speed grows with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from dure.share.interference import App, Book

MIXING = 0.15
"""Slowdown of kernels that mix on SMs nobody set apart, beyond equation 1 (fitted to free sharing on an A100)."""


class Candidate(msgspec.Struct, frozen=True):
    """`need` is the part of the device its kernels fill on average."""

    name: str
    app: App
    need: float


def throughput(members: Sequence[Candidate], book: Book, mixing: float = MIXING) -> float:
    """Solo-equivalents per unit of time when these run together without caps."""
    wanted = sum(m.need for m in members)
    if not members or wanted <= 0.0:
        return float(len(members))
    room = min(1.0, 1.0 / wanted)
    total = 0.0
    for member in members:
        neighbours = [(other.app, other.need * room) for other in members if other is not member]
        speed = room * book.speed(member.app, member.need * room, neighbours)
        total += speed / (1.0 + mixing) if neighbours else speed
    return total


def matrix(candidates: Sequence[Candidate], book: Book) -> NDArray[np.float64]:
    """Entry i, j: work done per time by i and j together; above 1 they are compatible. The diagonal is 1."""
    size = len(candidates)
    gains = np.ones((size, size))
    for i in range(size):
        for j in range(i + 1, size):
            gains[i, j] = gains[j, i] = throughput((candidates[i], candidates[j]), book)
    return gains


def companions(ordered: Sequence[Candidate], book: Book) -> tuple[str, ...]:
    """The members of the next squad: the first in order, then whoever raises the squad's total speed."""
    chosen: list[Candidate] = []
    best = 0.0
    for candidate in ordered:
        grown = throughput((*chosen, candidate), book)
        if not chosen or grown > best:
            chosen.append(candidate)
            best = grown
    return tuple(member.name for member in chosen)
