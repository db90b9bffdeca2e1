"""A pod in the numbers of the arrays: one ask for all classes on which it asks for the same. Called by `board`.

Not every pod can be written so (`expressible`); the few others are seated by looking at every node.
"""

from __future__ import annotations

from collections.abc import Sequence

from dure.model.accelerator import AcceleratorProfile, ShareMode
from dure.model.affinity import NO_RULES
from dure.model.catalogue import Catalogue
from dure.model.cluster import Pod
from dure.model.demand import Demand, on_class
from dure.model.units import WHOLE_MILLI
from dure.pack.ask import Ask
from dure.pack.codes import CUT, EXCLUSIVE, MPS, TIME, WHOLE
from dure.pack.slots import covering, coverings, told_by_mask

CODES = {
    ShareMode.EXCLUSIVE: EXCLUSIVE,
    ShareMode.MPS: MPS,
    ShareMode.TIMESLICE: TIME,
    ShareMode.MIG: CUT,
    ShareMode.VNPU: CUT,
}
_WIDEST_GEOMETRY = 8
# A bit mask of types has 63 bits.
_MOST_CLASSES = 60


def expressible(pod: Pod, classes: Sequence[str]) -> bool:
    """Neither claims, nor rules about nodes or neighbours, nor a wish for a node of its own."""
    if pod.claims or not pod.classes or pod.isolation.walls_nodes or len(classes) > _MOST_CLASSES:
        return False
    return pod.rules is NO_RULES or pod.rules == NO_RULES


def asks_of(pod: Pod, classes: Sequence[str], catalogue: Catalogue, tenant: int, gate: int) -> tuple[Ask, ...]:
    """Empty when no class of the fleet could ever take the pod."""
    demand, walls = pod.demand, int(pod.isolation.walls_devices)
    accepted = [typ for typ, name in enumerate(classes) if name in pod.classes]
    if not accepted:
        return ()
    if demand.whole:
        types = sum(1 << typ for typ in accepted)
        ask = Ask(
            demand.cpu_milli, demand.host_memory_mib, demand.devices, WHOLE, dmem=demand.memory_mib, types=types,
            tenant=tenant, isolation=walls, gate=gate,
        )  # fmt: skip
        return (ask,)
    reference = catalogue.accelerator(pod.classes[0])
    found: dict[Ask, int] = {}
    for typ in accepted:
        profile = catalogue.accelerator(classes[typ])
        there = on_class(demand, profile, reference)
        modes, cover = _modes(pod, there, profile)
        if modes:
            ask = Ask(
                demand.cpu_milli, demand.host_memory_mib, 1, min(there.compute_milli, WHOLE + 1), profile=cover,
                dmem=there.memory_mib, dbw=min(there.bandwidth_milli, WHOLE + 1), mode=CUT if cover >= 0 else MPS,
                types=0, tenant=tenant, isolation=walls, modes=modes, gate=gate,
            )  # fmt: skip
            found[ask] = found.get(ask, 0) | 1 << typ
    return tuple(ask._replace(types=types) for ask, types in found.items())


def _modes(pod: Pod, demand: Demand, profile: AcceleratorProfile) -> tuple[int, int]:
    """The modes in which an empty device of the class could take the demand, and which list of profiles covers it."""
    modes, cover = 0, -1
    most = max(demand.compute_milli, demand.bandwidth_milli)
    fits = demand.memory_mib <= profile.memory_mib and most <= WHOLE_MILLI
    for mode in ShareMode:
        if pod.share and mode not in pod.share:
            continue
        geometry = profile.geometry(mode)
        if geometry is not None and regular(profile, mode):
            enough = covering(geometry, demand.memory_mib, most)
            if enough:
                modes |= 1 << CUT
                cover = len(geometry.profiles) + coverings(geometry).index(enough)
        elif geometry is None and fits and (mode is ShareMode.EXCLUSIVE or profile.clients(mode) > 0):
            modes |= 1 << CODES[mode] if CODES[mode] != CUT else 0
    return modes, cover


def regular(profile: AcceleratorProfile, mode: ShareMode) -> bool:
    """Whether the arrays can tell how a device of this class is shared in this mode."""
    if CODES[mode] != CUT:
        return True
    geometry = profile.geometry(mode)
    if geometry is None or (profile.mig is not None and profile.vnpu is not None):
        return False
    return geometry.slots <= _WIDEST_GEOMETRY and told_by_mask(geometry)
