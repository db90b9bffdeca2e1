"""The fleets of the timed benchmarks, the mapping of fractions to MIG profiles, and how each policy picks a seat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from numba import njit

from dure.bench.data import data_file, read_rows
from dure.bench.pack_trace import TraceNode, TracePod, fleet_of, hardware_of
from dure.model.accelerator import Geometry, SliceProfile
from dure.pack.ask import Ask, slice_ask
from dure.pack.codes import CUT, NEVER, WHOLE, Ints
from dure.pack.grid import Grid, Host, Part, Seat
from dure.pack.kernels import node_cost
from dure.pack.mix import Mix
from dure.pack.slots import free_starts, steps
from dure.pack.worth import Hardware, WorthSettings

MIG_POLICIES = ("dure", "dure+moves", "firstfit", "bestfit", "fgd")
_CLASSES = ("A100-SXM4-80GB", "H100-SXM5-80GB")
_CUT_ONLY = (1 << CUT) | 0b10


@lru_cache(maxsize=4)
def geometry(gpu: str) -> Geometry:
    """The placement table of one class, media-engine profiles left out."""
    profiles = []
    for row in read_rows(data_file("mig-profiles/mig_profiles.csv")):
        if row["gpu"] == gpu and "+me" not in row["profile"]:
            starts = tuple(int(start) for start in row["starts"].split("|"))
            milli = round(float(row["sm_fraction"]) * 1000)
            memory = round(float(row["memory_gib"]) * 1024)
            profiles.append(
                SliceProfile(
                    row["profile"], int(row["memory_slices"]), starts, int(row["compute_slices"]), memory, milli,
                    int(row["max_instances"]),
                )
            )  # fmt: skip
    return Geometry(8, 7, tuple(profiles))


# The same machine with other prices is another policy: FGD counts fragments alone, best fit only what is left over.
FGD = WorthSettings(
    remainder=0.0, ram_per_gib=0.0, broken_node=0.0, type_price=0.0, tie=0.0, rho_cap=0.0, guard=0.0, mode_switch=0.0
)
BEST_FIT = msgspec.structs.replace(FGD, tie=1.0)


class Layout:
    """A grid, how trace pods become asks on it, and how the policy picks a seat."""

    def __init__(self, nodes: Sequence[TraceNode], pods: Sequence[TracePod], policy: str, *, mig: bool) -> None:
        self.policy, self.ours = policy, policy.startswith("dure")
        lowest = policy in ("firstfit", "bestfit")
        if mig:
            hosts, hardware, self.ask = _mig_fleet(nodes, lowest)
        else:
            fleet = fleet_of(nodes)
            hosts, hardware, self.ask = fleet.hosts, fleet.hardware, fleet.ask
        self.capacity_milli = sum(hardware.devices) * WHOLE
        self.grid = self._grid(hosts, hardware, pods)

    def _grid(self, hosts: Sequence[Host], hardware: Hardware, pods: Sequence[TracePod]) -> Grid:
        if self.ours:
            return Grid(hosts, hardware)
        mix = Mix()
        if self.policy == "fgd":
            for pod in pods:
                mix.add(self.ask(pod).shape)
        return Grid(hosts, hardware, FGD if self.policy == "fgd" else BEST_FIT, mix)

    def seat(self, ask: Ask) -> Seat | None:
        """Decide and take."""
        return first_fit(self.grid, ask) if self.policy == "firstfit" else self.grid.seat(ask)

    def seat_each(self, asks: Sequence[Ask]) -> list[Seat | None]:
        """The same one after the other; a few at a time, so that none takes another's row of the index."""
        if self.policy == "firstfit":
            return [self.seat(ask) for ask in asks]
        most = self.grid.settings.shapes
        seats: list[Seat | None] = []
        for at in range(0, len(asks), most):
            seats += self.grid.seat_all(asks[at : at + most])
        return seats

    def arrived(self, ask: Ask) -> None:
        """Somebody came, whether seated or not. Only ours learns; FGD knows the whole list from the start."""
        if self.ours:
            self.grid.arrived([ask])


def _mig_fleet(
    nodes: Sequence[TraceNode], lowest: bool
) -> tuple[Sequence[Host], Hardware, Callable[[TracePod], Ask]]:
    """A100 and H100 nodes (every third an H100 node) with the hosts and device numbers of the trace."""
    part = Part(mem=80 * 1024, bw=1000, home=CUT, modes=_CUT_ONLY)
    hosts = [
        Host(node.cpu_milli, node.memory_mib, int(i % 3 == 0), (part,) * node.devices) for i, node in enumerate(nodes)
    ]
    tables = [geometry(name) for name in _CLASSES]
    hardware = msgspec.structs.replace(
        hardware_of(hosts, len(_CLASSES)),
        steps=tuple(lowest_steps(table) if lowest else steps(table) for table in tables),
        slots=(8, 8),
        geometries=tuple(tables),
    )
    return hosts, hardware, mig_ask


def lowest_steps(table: Geometry) -> tuple[tuple[int, ...], ...]:
    """Steps of operators that cut on demand: the lowest legal start."""
    rows = []
    for profile in table.profiles:
        width = (1 << profile.slots) - 1
        starts = [free_starts(profile, mask) for mask in range(1 << table.slots)]
        rows.append(tuple(mask | width << free[0] if free else -1 for mask, free in enumerate(starts)))
    return tuple(rows)


def mig_ask(pod: TracePod) -> Ask:
    """A fraction becomes the smallest profile that has its share of the memory slots and of the multiprocessors, the
    whole device where none has; the rest stays whole."""
    if pod.devices != 1 or pod.milli >= WHOLE:
        return Ask(pod.cpu_milli, pod.memory_mib, pod.devices, WHOLE if pod.devices else 0)
    index, slots = covering(pod.milli)
    return slice_ask(pod.cpu_milli, pod.memory_mib, index, slots * WHOLE // 8, -1)


@lru_cache(maxsize=1000)
def covering(milli: int) -> tuple[int, int]:
    """Index and slots of the smallest profile of the first class that gives this share of a device."""
    profiles = geometry(_CLASSES[0]).profiles
    enough = [(p.slots, p.compute_slices, i) for i, p in enumerate(profiles) if p.slots * WHOLE // 8 >= milli]
    covered = [one for one in enough if profiles[one[2]].compute_milli >= milli]
    slots, _, index = min(covered) if covered else max(enough)
    return index, slots


def first_fit(grid: Grid, ask: Ask) -> Seat | None:
    """Take on the first node in order that can; None when none can."""
    row = ask.row()
    n = int(first_node(grid.hosts, grid.devs, *grid.priced.tables, row))
    return grid.seat_on(ask, n) if n >= 0 else None


@njit(cache=True)
def first_node(
    hosts: Ints, devs: Ints, levels: Ints, value: Ints, rates: Ints, idles: Ints, step: Ints, scal: Ints, ask: Ints
) -> Any:
    """The first node in order that can take the ask, or -1."""
    for n in range(hosts.shape[0]):
        if node_cost(hosts, devs, levels, value, rates, idles, step, scal, n, ask) != NEVER:
            return n
    return -1
