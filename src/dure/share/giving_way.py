"""Who gives way in mid-piece to one that the policy puts before it, and who comes forward again.

For devices that can take what runs back a row, as processors can. The policy itself says it: those at work are ranked
among those who wait, each by the work it has left, and one at work behind one that waits gives way. Not with a piece
that is about to end; and nobody stands behind longer than `PATIENCE` times its own piece, so that everybody comes to
an end under any policy. The device's rows ask. Cost: one ranking.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from dure.share.policies import Rank
from dure.share.squad import Waiting, ordered

WORTH_MS = 1.0
"""A piece that ends sooner is let end: a change costs about a tenth of that, and predictions err by more."""
PATIENCE = 2.0
"""Times its own length that a piece may stand behind others."""


class Piece(msgspec.Struct, frozen=True):
    """Somebody in mid-piece: `rest_ms` until it ends, `whole_ms` all of it, `stood_ms` how long it stood behind."""

    owner: Waiting
    rest_ms: float
    whole_ms: float
    stood_ms: float = 0.0

    @property
    def patient(self) -> bool:
        return self.owner.reserved_parts == 0 and self.stood_ms < PATIENCE * self.whole_ms

    @property
    def may_stop(self) -> bool:
        return self.rest_ms >= WORTH_MS and self.patient


class Change(NamedTuple):
    """`gives_way` does so for `comes`, the first of all who wait."""

    gives_way: str
    comes: str


def change(waiting: Sequence[Waiting], running: Sequence[Piece], rank: Rank) -> Change | None:
    """Who should give way, if anybody should: the last of those at work who come after one that waits."""
    able = {piece.owner.tenant for piece in running if piece.may_stop}
    if not able or not waiting:
        return None
    order = [one.tenant for one in ordered([*waiting, *(piece.owner for piece in running)], rank)]
    waits = {one.tenant for one in waiting}
    first = next(place for place, tenant in enumerate(order) if tenant in waits)
    last = next((tenant for tenant in reversed(order[first:]) if tenant in able), None)
    return Change(last, order[first]) if last is not None else None


def goes_on(waiting: Sequence[Waiting], behind: Sequence[Piece], rank: Rank) -> str | None:
    """Who of those behind comes forward before anybody who waits begins; first those who stood there long enough."""
    weary = [piece.owner for piece in behind if not piece.patient]
    found = weary or [*waiting, *(piece.owner for piece in behind)]
    first = ordered(found, rank)[0].tenant if found else None
    return first if any(piece.owner.tenant == first for piece in behind) else None
