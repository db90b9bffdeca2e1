"""Whose turn it is in which pool, kept between decisions and told to the agents where a pool is torn.

`Turning` is called by the loop after each decision. What stands in the store is the level that `place.turn` says: the
observer puts it into the next snapshot, so that a turn stays where it is; agents hear of torn pools with a wish,
because only they know nodes and can keep some of them. Written with the loop's other writes, so only by a leader.
"""

from __future__ import annotations

import msgspec

from dure.model.defrag import KeptTurn, WantedRoom
from dure.model.snapshot import Snapshot
from dure.place.turn import turns_of
from dure.plane.adapting import Learned
from dure.ports import StorePort

KEY = "place.turns"


def kept_turns(store: StorePort) -> tuple[KeptTurn, ...]:
    """As the last decision left them."""
    kept = store.fetch_setting(KEY)
    return msgspec.json.decode(kept, type=tuple[KeptTurn, ...]) if kept else ()


class Turning:
    def __init__(self, store: StorePort) -> None:
        self._store = store
        self._settings: dict[str, str] = {}

    def look(self, snapshot: Snapshot) -> None:
        """Whether what stands in the store is still true."""
        records = {record.name: record for record in snapshot.records}
        kept = []
        for turn in turns_of(snapshot).values():
            spec = records[turn.claim.name].spec
            each, classes = spec.demand.devices, tuple(accepted.name for accepted in spec.classes)
            room = WantedRoom(spec.name, each, classes, turn.pool, turn.devices // each)
            kept.append(KeptTurn(turn.cluster, room, turn.torn))
        kept.sort(key=lambda one: (one.cluster, one.room.pool))
        level = msgspec.json.encode(kept).decode() if kept else ""
        if level != (self._store.fetch_setting(KEY) or ""):
            self._settings = {KEY: level}

    def told(self, other: Learned) -> Learned:
        """What this cycle has to write beside the drafts, together with what somebody else has."""
        mine, self._settings = self._settings, {}
        return other._replace(settings={**other.settings, **mine}) if mine else other
