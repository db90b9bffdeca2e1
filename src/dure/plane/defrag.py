"""Wishes for defragmentation and their answers, as small facts in the store.

People ask through the API; each cluster's agent takes its wish with `fetch_wish` and answers in its reports. One wish
stands for a cluster at a time: one that is being carried out is not replaced, and one that was answered for good is
not handed out again, whatever restarts.
"""

from __future__ import annotations

import difflib
import secrets
from collections.abc import Sequence

import msgspec

from dure.model.defrag import DefragAnswer, DefragState, DefragWish, WantedRoom
from dure.model.errors import NotFound
from dure.model.fleet import Fleet
from dure.model.reason import Reason
from dure.model.units import Instant
from dure.model.workload import WorkloadRecord
from dure.plane.turns import kept_turns
from dure.ports import StorePort

# After this long without an answer a wish no longer stands in the way of another.
STANDS_S = 3600.0


def ask(store: StorePort, fleet: Fleet, now_s: Instant, cluster: str | None, apply: bool) -> tuple[DefragAnswer, ...]:
    """Write a wish for each cluster, or for one; answers with what stands for each of them now."""
    held = store.list_workloads(ended=False)
    return tuple(_ask_one(store, name, now_s, apply, held) for name in _named(fleet, cluster))


def answers(store: StorePort, fleet: Fleet, cluster: str | None) -> tuple[DefragAnswer, ...]:
    """What became of the newest wish of each cluster that was ever asked."""
    found = (_newest(store, name) for name in _named(fleet, cluster))
    return tuple(answer for answer in found if answer is not None)


def fetch_wish(store: StorePort, cluster: str) -> DefragWish | None:
    """What stands for this cluster, with whose turn it is there; None where there is neither."""
    wish = _standing(store, cluster)
    keeps = tuple(turn.room for turn in kept_turns(store) if turn.cluster == cluster and turn.torn)
    if not keeps:
        return wish
    return msgspec.structs.replace(wish if wish is not None else DefragWish("", 0.0), keeps=keeps)


def _standing(store: StorePort, cluster: str) -> DefragWish | None:
    """A person's wish; None once it was answered for good."""
    kept = store.fetch_setting(_wish_key(cluster))
    return msgspec.json.decode(kept, type=DefragWish) if kept else None


def settle(store: StorePort, cluster: str, answer: DefragAnswer) -> None:
    """Keep an agent's answer, which comes again with each of its reports, and take back a wish that it ends."""
    known = _answer(store, cluster)
    if known is not None and (known == answer or known.at_s > answer.at_s):
        return
    body = msgspec.json.encode(answer).decode()
    with store.together():
        store.write_setting(_answer_key(cluster), body)
        wish = _standing(store, cluster)
        if wish is not None and wish.id == answer.wish and answer.final:
            store.write_setting(_wish_key(cluster), "")


def _ask_one(
    store: StorePort, cluster: str, now_s: Instant, apply: bool, held: Sequence[WorkloadRecord]
) -> DefragAnswer:
    standing = _standing(store, cluster)
    if standing is None or not standing.apply or now_s - standing.asked_s > STANDS_S:
        wish = DefragWish(secrets.token_hex(8), now_s, apply, _widest(held, cluster))
        store.write_setting(_wish_key(cluster), msgspec.json.encode(wish).decode())
    found = _newest(store, cluster)
    assert found is not None
    return found


def _newest(store: StorePort, cluster: str) -> DefragAnswer | None:
    wish, answer = _standing(store, cluster), _answer(store, cluster)
    if wish is None or (answer is not None and answer.wish == wish.id):
        return answer
    return DefragAnswer(cluster, wish.id, wish.asked_s, DefragState.ASKED, wish.apply)


def _answer(store: StorePort, cluster: str) -> DefragAnswer | None:
    kept = store.fetch_setting(_answer_key(cluster))
    return msgspec.json.decode(kept, type=DefragAnswer) if kept else None


def _widest(records: Sequence[WorkloadRecord], cluster: str) -> WantedRoom | None:
    """Of those that are held because this cluster is torn, the first by priority and size."""
    torn = [
        (record, verdict.where.partition("/")[2])
        for record in records
        if record.status.phase.waits and record.spec.demand.devices > 1
        for verdict in record.status.held
        if verdict.reason is Reason.FRAGMENTED and verdict.where.partition("/")[0] == cluster
    ]
    if not torn:
        return None
    record, pool = min(torn, key=lambda one: (-one[0].spec.priority, -one[0].spec.demand.devices, one[0].name))
    classes = tuple(accepted.name for accepted in record.spec.classes)
    return WantedRoom(record.name, record.spec.demand.devices, classes, pool)


def _named(fleet: Fleet, cluster: str | None) -> list[str]:
    names = [spec.info.name for spec in fleet.clusters]
    if cluster is None:
        return names
    if cluster not in names:
        close = difflib.get_close_matches(cluster, names, n=1)
        known = f"Did you mean '{close[0]}'?" if close else f"Known clusters: {', '.join(names)}"
        raise NotFound(f"no cluster '{cluster}'", remedy=known)
    return [cluster]


def _wish_key(cluster: str) -> str:
    return f"defrag.wish.{cluster}"


def _answer_key(cluster: str) -> str:
    return f"defrag.answer.{cluster}"
