"""One interface in front of the ways to learn the weights: the rule of `adapt`, the bandit over it, or not at all.

Called by the plane when a window ends. `Memory` is all that has to be kept between two windows.
"""

from __future__ import annotations

import enum

import msgspec

from dure.model.weights import Weights
from dure.place.adapt import Window, adapted
from dure.place.bandit import Bandit, learned


class Learning(enum.StrEnum):
    """`rule` follows errors step by step, `bandit` also tries other settings where they pay, `off` stays neutral."""

    RULE = "rule"
    BANDIT = "bandit"
    OFF = "off"


class Memory(msgspec.Struct, frozen=True):
    """`weights` are in force until the next window ends."""

    weights: Weights = Weights()
    bandit: Bandit = Bandit()


def learn(method: Learning, memory: Memory, window: Window, cost: float | None) -> Memory:
    """What to remember after `window`, whose cost per unit of work was `cost` (None: there was no work)."""
    match method:
        case Learning.OFF:
            return Memory()
        case Learning.RULE:
            weights = adapted(memory.weights, window)
            return Memory(weights, msgspec.structs.replace(memory.bandit, rule_weights=weights, played=0))
        case Learning.BANDIT:
            bandit, weights = learned(memory.bandit, window, cost)
            return Memory(weights, bandit)
