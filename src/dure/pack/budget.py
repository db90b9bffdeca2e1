"""How many running pods may be moved for the sake of others, and what a move has to bring.

One rule for live clusters and for the replays of `dure bench pack --policies dure+moves`: one move for each hundred
pods that were placed. What a move has to bring rises with the part of the budget that is gone: what nobody asks for
need not be saved. Chosen on arrival orders of the public trace (`designs/0390`).
"""

from __future__ import annotations

import msgspec


class MoveSettings(msgspec.Struct, frozen=True):
    """Nobody moves for less than `worth` thousandths of a device. `first` and `last` are devices that a move has to
    win beyond what others lose: while nearly all moves are left, and for the last of them."""

    per_pod: float = 0.01
    worth: int = 300
    first: float = -0.5
    last: float = 1.5
    at_once: int = 2


USUAL = MoveSettings()


class Allowance(msgspec.Struct, frozen=True):
    """At most so many moves now, each of which has to win so many devices."""

    most: int
    net: float


class Budget(msgspec.Struct):
    """Pods that were placed so far, and those of them that were moved."""

    placed: int = 0
    used: int = 0

    def allowance(self, milli: int, settings: MoveSettings = USUAL) -> Allowance | None:
        """For a demand of so many thousandths of a device; None when it is not worth a move or none is left."""
        allowed = int(settings.per_pod * self.placed)
        most = min(settings.at_once, allowed - self.used, milli // settings.worth)
        if most <= 0:
            return None
        return Allowance(most, settings.first + (settings.last - settings.first) * self.used / allowed)
