"""A second opinion in the live loop: the same snapshot, another placement policy, nothing acted on.

The loop hands over every snapshot that it decides on with what it decided. The sums are kept in the store, where
`dure shadow` and the API read them. With no shadow on it costs one look at a setting per decision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from dure.model.decision import Decision, Hold, Place
from dure.model.policy import Policy, Verb
from dure.model.shadow import SHADOW_SETTING, Difference, Shadow
from dure.model.snapshot import Snapshot
from dure.ports import StorePort

KEPT = 20


def shadowed(snapshot: Snapshot, policy: Policy) -> Snapshot:
    """The same world under another placement policy."""
    others = tuple(one for one in snapshot.policies if one.verb is not Verb.PLACE)
    return msgspec.structs.replace(snapshot, policies=(*others, policy))


class Beside:
    def __init__(self, store: StorePort, decide: Callable[[Snapshot], Sequence[Decision]]) -> None:
        self._store, self._decide = store, decide
        self._early: set[str] = set()

    def compare(self, snapshot: Snapshot, decisions: Sequence[Decision]) -> None:
        """What the shadow would have done with this snapshot, added to its sums."""
        kept = self._store.fetch_setting(SHADOW_SETTING)
        if not kept:
            return
        shadow = msgspec.json.decode(kept, type=Shadow)
        theirs = {
            one.workload: one
            for one in self._decide(shadowed(snapshot, shadow.policy))
            if isinstance(one, (Place, Hold))
        }
        for live in decisions:
            if isinstance(live, (Place, Hold)) and live.workload in theirs:
                shadow = self._added(shadow, snapshot.now_s, live, theirs[live.workload])
        self._store.write_setting(SHADOW_SETTING, msgspec.json.encode(shadow).decode())

    def _added(self, shadow: Shadow, now_s: float, live: Place | Hold, other: Place | Hold) -> Shadow:
        if isinstance(live, Hold):
            # The live policy holds it in cycle after cycle; that the shadow would start it counts once.
            if isinstance(other, Hold) or other.workload in self._early:
                return shadow
            self._early.add(other.workload)
            return _noted(shadow, Difference(now_s, live.workload, "", _where(other)), would_start=1)
        if isinstance(other, Hold):
            return _noted(shadow, Difference(now_s, live.workload, _where(live), ""), placed=1, would_wait=1)
        mine, theirs = live.placement.bill, other.placement.bill
        summed = msgspec.structs.replace(
            shadow,
            live_micros=shadow.live_micros + mine.total,
            shadow_micros=shadow.shadow_micros + theirs.total,
            live_carbon_g=shadow.live_carbon_g + mine.carbon_g,
            shadow_carbon_g=shadow.shadow_carbon_g + theirs.carbon_g,
        )
        if _where(live) == _where(other):
            return msgspec.structs.replace(summed, placed=summed.placed + 1, same=summed.same + 1)
        told = Difference(now_s, live.workload, _where(live), _where(other), mine.total, theirs.total)
        return _noted(summed, told, placed=1, elsewhere=1)


def _noted(shadow: Shadow, told: Difference, **counts: int) -> Shadow:
    more = {name: getattr(shadow, name) + count for name, count in counts.items()}
    return msgspec.structs.replace(shadow, newest=(*shadow.newest, told)[-KEPT:], **more)


def _where(decision: Place) -> str:
    return f"{decision.placement.cluster}/{decision.placement.pool}"
