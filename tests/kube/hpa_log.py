"""What the real autoscaler decided and at which microsecond, from its controller's own log.

Used by `keda_agreement` and `hpa_agreement`. With `VERBOSE` the controller says what it proposes just before it looks
at its windows, and what came of it just after; a write lies between the two. So the moments that its memory holds are
known, however long the machine let it wait between an answer and a decision.
"""

from __future__ import annotations

import datetime
import re
import threading
from pathlib import Path

import msgspec

from dure.scale.hpa.normalize import HpaState, ScaleEvent

VERBOSE = "--vmodule=horizontal=4"
_LINE = re.compile(
    r"^I(?P<stamp>\d{4} \d\d:\d\d:\d\d\.\d{6}) .*horizontal\.go:\d+\] "
    r'"(?P<what>Proposing desired replicas(?: from zero)?|Successfully rescaled|Decided not to scale)" '
    r".*?desiredReplicas=(?P<replicas>\d+)"
)
_PROPOSING = "Proposing desired replicas"
# Whose line it is: the target stands in some as kind/namespace/name, the autoscaler of the same name in others.
_WHOSE = re.compile(r'\b(?:scaleTarget|HPA)="(?:[^"/]*/)*(?P<name>[^"/]+)"')


class Decision(msgspec.Struct, frozen=True):
    """`proposed` is what the metrics asked for; `end_s` is when a change was remembered. Seconds of the calendar."""

    proposed: int
    replicas: int
    begin_s: float
    end_s: float


class HpaLog:
    """The decisions of a cluster that has one autoscaler, in their order."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset = path, path.stat().st_size

    def fresh(self) -> list[Decision]:
        """What was decided since the last call; the controller has asked anew, so nothing is half written."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            raw = file.read()
        whole = raw[: raw.rfind(b"\n") + 1]
        self._offset += len(whole)
        return decisions(whole.decode())


class SharedLog:
    """The decisions of a cluster with many autoscalers, each named like its target. May be asked from any thread."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset = path, path.stat().st_size
        self._lines: dict[str, list[str]] = {}
        self._lock = threading.Lock()

    def take(self, name: str) -> list[Decision]:
        """What that one decided since it was last asked for; it has asked anew, so nothing of its is half written."""
        with self._lock:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                raw = file.read()
            whole = raw[: raw.rfind(b"\n") + 1]
            self._offset += len(whole)
            for line in whole.decode().splitlines():
                if _LINE.match(line) and (whose := _WHOSE.search(line)) is not None:
                    self._lines.setdefault(whose["name"], []).append(line)
            return decisions("\n".join(self._lines.pop(name, [])))


def decisions(text: str, year: int | None = None) -> list[Decision]:
    """Pairs of a proposal and what came of it; one whose write failed has no second half and is no decision."""
    found: list[Decision] = []
    proposal: tuple[int, float] | None = None
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        replicas, moment_s = int(match["replicas"]), _moment(match["stamp"], year)
        if match["what"].startswith(_PROPOSING):
            proposal = (replicas, moment_s)
        elif proposal is not None:
            found.append(Decision(proposal[0], replicas, proposal[1], moment_s))
            proposal = None
    return found


def remembered(state: HpaState, now_s: float, written_s: float) -> HpaState:
    """The controller notes a change after its write; the mirror, which does not write, at its decision."""

    def later(events: tuple[ScaleEvent, ...]) -> tuple[ScaleEvent, ...]:
        return tuple(msgspec.structs.replace(one, at_s=written_s) if one.at_s == now_s else one for one in events)

    return msgspec.structs.replace(state, ups=later(state.ups), downs=later(state.downs))


def _moment(stamp: str, year: int | None) -> float:
    """Log lines carry local time and no year."""
    year = year or datetime.datetime.now().year  # noqa: DTZ005 -- klog writes local time
    return datetime.datetime.strptime(f"{year}{stamp}", "%Y%m%d %H:%M:%S.%f").timestamp()  # noqa: DTZ007 -- the same
