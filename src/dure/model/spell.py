"""What was seen of a spot pool: since when each of its nodes was there, and which of them were taken back.

An agent reports it of each of its spot pools (`Report.spells`), the plane keeps more of the past than an agent
remembers (`plane.spells`), a decision finds it in the snapshot (`place.spot_market`). Facts alone: how likely a spell
is to end is for whoever decides to say.
"""

from __future__ import annotations

import msgspec

from dure.model.units import Instant


class NodeSpell(msgspec.Struct, frozen=True, omit_defaults=True, cache_hash=True):
    """One node from when it was first seen ready until it went; `lost` if it was taken back, not given back."""

    node: str
    begin_s: Instant
    end_s: Instant | None = None
    lost: bool = False


class PoolSpells(msgspec.Struct, frozen=True, omit_defaults=True, cache_hash=True):
    """Spells by when they began, as far back as somebody remembers. `since_s` is when the pool was first watched.

    `asks`: more nodes can be asked for. A pool that cannot ask has what the provider leaves it.
    """

    cluster: str
    pool: str
    since_s: Instant
    spells: tuple[NodeSpell, ...] = ()
    asks: bool = False
