"""Who sits where in a live cluster, in the numbers of the arrays: the holders that `relocate` may ask to move.

Kept by `board` node by node, as its arrays are. A pod that the arrays cannot express, or that holds something else
than it asks for, is in no row and is never moved by them.
"""

from __future__ import annotations

from collections.abc import Sequence

from dure.model.accelerator import ShareMode
from dure.model.cluster import Pod
from dure.pack.ask import Ask
from dure.pack.codes import EXCLUSIVE
from dure.pack.grid import Seat
from dure.pack.holders import Holders
from dure.pack.room import NodeRoom

_CUT = (ShareMode.MIG, ShareMode.VNPU)


class Held:
    """`pods[row]` is the pod of a row of the holders."""

    def __init__(self, widest: int) -> None:
        self.holders = Holders(widest)
        self.pods: dict[int, Pod] = {}
        self._rows: dict[str, list[int]] = {}

    def write(self, name: str, seats: Sequence[tuple[Pod, Ask, Seat]]) -> None:
        """Those who sit on a node now, instead of those who sat there."""
        self.leave(name)
        rows = []
        for pod, ask, seat in seats:
            row = self.holders.add(ask, seat)
            self.pods[row] = pod
            rows.append(row)
        if rows:
            self._rows[name] = rows

    def leave(self, name: str) -> None:
        for row in self._rows.pop(name, ()):
            self.holders.drop(row)
            del self.pods[row]


def seat_of(
    pod: Pod, asks: Sequence[Ask], room: NodeRoom, node: int, typ: int, first: int
) -> tuple[Ask, Seat] | None:
    """The ask that the pod's seat answers, and the seat; None where what it holds is not what it asks for."""
    ask = next((one for one in asks if one.types >> typ & 1), None)
    order = {device: first + at for at, device in enumerate(room.devices)}
    devices = tuple(order[part.device] for part in pod.slices if part.device in order)
    if ask is None or len(pod.slices) != ask.pieces or len(devices) != ask.pieces:
        return None
    part = pod.slices[0]
    if ask.mode == EXCLUSIVE:
        return (ask, Seat(node, devices, 0)) if all(one.mode is ShareMode.EXCLUSIVE for one in pod.slices) else None
    if part.mode in _CUT:
        return ask, Seat(node, devices, ((1 << part.slots) - 1) << part.start)
    exact = (part.compute_milli, part.memory_mib, part.bandwidth_milli) == (ask.milli, ask.dmem, ask.dbw)
    return (ask, Seat(node, devices, 0)) if exact or part.mode is ShareMode.EXCLUSIVE else None
