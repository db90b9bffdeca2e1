"""Two rows of a CPU: those who hold threads, and behind them those who run on what these leave.

Whoever would wait begins in the second row, where the system gives it a processor only while nobody of the first row
wants it; so no processor idles between two pieces, and a piece is there already when its turn comes. Who is in which
row is the policy's order, looked at again whenever anything happens: one that runs changes rows in mid-piece. Tenants
with a limit stay out of this: theirs are turns (`pace`). Asked by the executor, on whose thread all of it happens.
Only where the system lets us give priorities and take them back, and never on a GPU.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from dure.device.pace import Pace
from dure.device.request import Running
from dure.device.stage import Stage
from dure.share.giving_way import Piece, change, goes_on
from dure.share.policies import Rank
from dure.share.squad import Waiting, ordered


class Scene(NamedTuple):
    """What is decided on: everybody who waits and whose turn it is, and how to look at one that is inside."""

    waiting: Sequence[Waiting]
    inside: Callable[[str], Waiting]
    rank: Rank
    now_ms: float


class Rows:
    """`stretch` answers how many times longer a tenant's work takes with these parts than with all."""

    def __init__(self, parts: int, stage: Stage, pace: Pace, stretch: Callable[[str, int], float]) -> None:
        self._parts = parts
        self._stage = stage
        self._pace = pace
        self._stretch = stretch

    def arrange(self, scene: Scene) -> None:
        """Before a squad is formed: whose turn it is comes to the front, and one for whom it is not gives way."""
        waiting = self._without_limit(scene.waiting)
        while self._stage.free() > 0 and self._stage.behind:
            name = goes_on(waiting, self._pieces(self._stage.behind, scene), scene.rank)
            if name is None:
                return
            self._stage.step_up(name)
        if self._stage.free() > 0:
            return
        running = {name: run for name, run in self._stage.running.items() if not self._pace.most_parts(name)}
        front = self._pieces(running, scene)
        if not any(piece.may_stop for piece in front):
            return
        behind = [piece.owner for piece in self._pieces(self._stage.behind, scene)]
        found = change([*waiting, *behind], front, scene.rank)
        if found is None:
            return
        if found.comes in self._stage.behind:
            self._stage.step_up(found.comes)
        self._stage.step_back(found.gives_way)

    def fillers(self, waiting: Sequence[Waiting], rank: Rank) -> list[Waiting]:
        """Of those who still wait, who begins in the second row: as many as there are parts, by the order."""
        room = self._parts - len(self._stage.behind)
        left = self._without_limit(waiting)
        return ordered(left, rank)[:room] if left and room > 0 else []

    def _without_limit(self, waiting: Sequence[Waiting]) -> list[Waiting]:
        return [one for one in waiting if not self._pace.most_parts(one.tenant)]

    def _pieces(self, runs: Mapping[str, Running], scene: Scene) -> list[Piece]:
        return [self._piece(scene.inside(name), run, scene.now_ms) for name, run in runs.items()]

    def _piece(self, owner: Waiting, run: Running, now_ms: float) -> Piece:
        """What is left of it by the clock. In the second row it may have got further, which nobody knows yet."""
        behind_ms = run.behind_ms + (now_ms - run.since_ms if owner.tenant in self._stage.behind else 0.0)
        ran_ms = now_ms - run.start_ms - run.paused_ms - behind_ms
        whole_ms = sum(owner.segments_ms[: run.member.segments])
        rest_ms = max(0.0, whole_ms - ran_ms / self._stretch(owner.tenant, run.member.parts))
        left_ms = owner.left_ms - whole_ms + rest_ms
        return Piece(msgspec.structs.replace(owner, left_ms=left_ms), rest_ms, whole_ms, behind_ms)


def may_rank() -> bool:
    """Whether the system lets this process lower a priority and raise it again; tried out on a thread of its own."""
    found = []
    trial = threading.Thread(target=lambda: found.append(_lowered_and_raised()))
    trial.start()
    trial.join()
    return found == [True]


def _lowered_and_raised() -> bool:
    """Of this thread alone, as Linux counts priorities."""
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, usual + 1)
        os.setpriority(os.PRIO_PROCESS, 0, usual)
        return True
    return False
