"""Who should run beside whom: the compatibility matrix and the members of a squad.

Two tenants are compatible when running together gets more done than taking turns: the sum of their speeds, slowed by
equation 1, is above one. How fast each goes depends on the device. Where lower ranks fill the SMs that higher ranks
leave, each has what those before it do not fill (`stacked`); where everybody has threads of its own, what all want is
divided (`side_by_side`). A squad takes tenants in the policy's order and keeps one only if its total speed grows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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


def side_by_side(members: Sequence[Candidate], book: Book, mixing: float = MIXING) -> float:
    """Solo-equivalents per unit of time when the device is divided by what each can fill."""
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


def stacked(members: Sequence[Candidate], book: Book, mixing: float = MIXING) -> float:
    """The same when each runs only while those before it leave SMs free.

    Kernels fill either little of a device or all of it, so `need` is taken as the part of its time in which a member
    leaves nothing; only in the rest is it disturbed by those behind it.
    """
    total = 0.0
    left = 1.0
    for at, member in enumerate(members):
        need = min(member.need, 1.0)
        neighbours = [(other.app, min(other.need, 1.0)) for other in members if other is not member]
        together = 1.0 if at else (1.0 - need if neighbours else 0.0)
        slowed = book.speed(member.app, need, neighbours) / (1.0 + mixing)
        total += left * (1.0 - together * (1.0 - slowed))
        left *= 1.0 - need
    return total


Gain = Callable[[Sequence[Candidate], Book], float]


def matrix(candidates: Sequence[Candidate], book: Book, gain: Gain = stacked) -> NDArray[np.float64]:
    """Entry i, j: work done per time by i with j behind it; above 1 they are compatible. The diagonal is 1."""
    size = len(candidates)
    gains = np.ones((size, size))
    for i in range(size):
        for j in range(size):
            if i != j:
                gains[i, j] = gain((candidates[i], candidates[j]), book)
    return gains


def companions(ordered: Sequence[Candidate], book: Book, gain: Gain = stacked) -> tuple[str, ...]:
    """The members of the next squad: the first in order, then whoever raises the squad's total speed."""
    chosen: list[Candidate] = []
    best = 0.0
    for candidate in ordered:
        grown = gain((*chosen, candidate), book)
        if not chosen or grown > best:
            chosen.append(candidate)
            best = grown
    return tuple(member.name for member in chosen)
