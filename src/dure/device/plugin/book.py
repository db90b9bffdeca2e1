"""Who holds which unit, in a file: what was given survives the plugin, and nothing is given twice.

The kubelet tells when it gives and never when a unit is free again, so holders are learnt from its list of pods with
their devices. A unit that was given and whose pod is not listed yet is kept for `GRACE_S`. The file is replaced as a
whole, so a crash leaves the old or the new one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from dure.adapters.kubelet.pod_resources import Owner
from dure.model.errors import Conflict

GRACE_S = 60.0


class Holder(msgspec.Struct, frozen=True):
    """`owner` is None until the kubelet lists it."""

    given_s: float
    owner: Owner | None = None


class _File(msgspec.Struct, frozen=True):
    version: int = 1
    held: dict[str, Holder] = {}


class Book:
    """Safe to use from many threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._held = dict(_read(path).held)

    @property
    def held(self) -> dict[str, Holder]:
        with self._lock:
            return dict(self._held)

    def give(self, ids: Collection[str], now_s: float) -> None:
        """Write down that these are given; `Conflict` when a pod that lives holds one of them."""
        with self._lock:
            for one in ids:
                holder = self._held.get(one)
                if holder is not None and holder.owner is not None:
                    raise Conflict(
                        f"unit {one} is held by pod {holder.owner.namespace}/{holder.owner.pod}",
                        remedy="Delete that pod, or wait until the kubelet has forgotten it.",
                    )
            self._replace({**self._held, **{one: Holder(now_s) for one in ids}})

    def listed(self, found: Mapping[str, Owner], now_s: float) -> tuple[str, ...]:
        """What the kubelet lists now; answers which units became free by it."""
        with self._lock:
            waits = {
                one: holder
                for one, holder in self._held.items()
                if holder.owner is None and one not in found and now_s - holder.given_s < GRACE_S
            }
            named = {
                one: Holder(self._held[one].given_s if one in self._held else now_s, owner)
                for one, owner in found.items()
            }
            freed = tuple(sorted(self._held.keys() - waits.keys() - named.keys()))
            if {**waits, **named} != self._held:
                self._replace({**waits, **named})
            return freed

    def _replace(self, held: dict[str, Holder]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_suffix(".new")
        with new.open("wb") as file:
            file.write(msgspec.json.encode(_File(held=dict(sorted(held.items())))))
            file.flush()
            os.fsync(file.fileno())
        new.rename(self._path)
        self._held = held


def _read(path: Path) -> _File:
    """An unreadable file is as none: the kubelet's list fills it again."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=_File)
    except (OSError, msgspec.DecodeError):
        return _File()
