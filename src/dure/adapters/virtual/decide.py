"""What to do about one pod that should be in two places. Pure: both sides in, one step out.

The virtual pod is what is wanted, the host pod what is. A host pod stands for one virtual uid and never for the next
pod of the same name; a virtual pod that ran and whose host pod is gone is gone too, so that its controller makes
another.
"""

from __future__ import annotations

import enum
from typing import Any

from dure.adapters.virtual.translate import origin, status_up

Json = dict[str, Any]
_ENDED = ("Succeeded", "Failed")


class Step(enum.Enum):
    NOTHING = enum.auto()
    CREATE = enum.auto()
    DELETE_HOST = enum.auto()
    DELETE_VIRTUAL = enum.auto()
    UPDATE = enum.auto()
    BIND = enum.auto()
    REPORT = enum.auto()


def next_step(virtual: Json | None, host: Json | None) -> Step:
    if virtual is None:
        return Step.NOTHING if host is None or leaving(host) else Step.DELETE_HOST
    if host is None:
        return _alone(virtual)
    if origin(host)[2] != virtual["metadata"]["uid"] or leaving(virtual):
        return Step.NOTHING if leaving(host) else Step.DELETE_HOST
    if host["spec"].get("nodeName") and not virtual["spec"].get("nodeName"):
        return Step.BIND
    return Step.REPORT if _news(virtual, host) else Step.NOTHING


def _alone(virtual: Json) -> Step:
    if leaving(virtual):
        return Step.DELETE_VIRTUAL
    if virtual.get("status", {}).get("phase") in _ENDED:
        return Step.NOTHING
    if virtual["spec"].get("nodeName"):
        return Step.DELETE_VIRTUAL
    return Step.NOTHING if virtual["spec"].get("schedulingGates") else Step.CREATE


def leaving(found: Json) -> bool:
    return "deletionTimestamp" in found["metadata"]


def within(wanted: Any, there: Any) -> bool:
    """Whether everything that is wanted is there already; a server adds fields of its own."""
    if isinstance(wanted, dict):
        return isinstance(there, dict) and all(within(value, there.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list):
        same = isinstance(there, list) and len(wanted) == len(there)
        return same and all(within(one, other) for one, other in zip(wanted, there, strict=True))
    return bool(wanted == there)


def _news(virtual: Json, host: Json) -> bool:
    there = virtual.get("status", {})
    return any(there.get(key) != value for key, value in status_up(host).items())
