"""Which processors are a virtual accelerator's own, so that neither the daemon nor containers compute on them.

Unless the node file gives accelerators as many cores as the machine has, the last ones are theirs and the rest is the
host's. Priorities are raised where the system lets us; without that right everything works, with more jitter.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

RAISED = -10
"""Niceness on a core of the device's own: who else lands there gets about a tenth of it."""


def shared_out(wanted: int, machine: int) -> int:
    """Cores that accelerators share out. If nobody says how many, all but one: what is advertised can then be held
    strictly, as daemon and containers need some time too, and took it from whoever was computing."""
    return wanted or max(1, machine - 1)


def own(processors: Iterable[int], cores: int, devices: int) -> tuple[frozenset[int], ...]:
    """The processors of each device, `cores` of them each; empty sets where nothing would be left for the host."""
    found = sorted(processors)
    if not 0 < cores * devices < len(found):
        return (frozenset(),) * devices
    theirs = found[-cores * devices :]
    return tuple(frozenset(theirs[i * cores : (i + 1) * cores]) for i in range(devices))


def stay_on(processors: Iterable[int]) -> None:
    """This thread, and what it starts from now on, runs there and before others; nothing at all for no processors."""
    wanted = frozenset(processors)
    if not wanted:
        return
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, wanted)
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, RAISED)


def leave(theirs: Iterable[frozenset[int]]) -> None:
    """The daemon stays off its devices' own processors. Threads that run already stay where they are."""
    taken = frozenset().union(*theirs)
    stay_on(os.sched_getaffinity(0) - taken if taken else ())
