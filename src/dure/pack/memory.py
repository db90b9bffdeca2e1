"""What the packer remembers between calls: the demand mix and the prices made from it.

An agent holds one `Memory` and hands it to `pack` each time; without one, `pack` learns from the state it is given.
Invariant: a pod counts once when it is first seen, and once more when it held something and no longer does.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from dure.model.accelerator import Geometry, ShareMode
from dure.model.catalogue import Catalogue
from dure.model.cluster import ClusterState, Node, Pod, Slice
from dure.pack.budget import Budget
from dure.pack.codes import LANES, WHOLE
from dure.pack.guard import Guards
from dure.pack.mix import Mix, Shape, Size, prior_of
from dure.pack.plain import plain_tables
from dure.pack.room import KeptRooms, NodeRoom
from dure.pack.score import Scorer
from dure.pack.slots import cover_steps, steps
from dure.pack.worth import USUAL, Hardware, Worth, WorthSettings, worth

if TYPE_CHECKING:
    from dure.pack.board import Board

_LESSON = 512
# More kinds of pods than any cluster has at once: those of long ago are forgotten with what rooms know of them.
_KINDS = 4096
_WIDEST_GEOMETRY = 8


class Memory:
    """Demand mix of one cluster, and its prices for the classes that the cluster has."""

    def __init__(self, settings: WorthSettings = USUAL) -> None:
        self.settings = settings
        self.mix: Mix | None = None
        self.classes: tuple[str, ...] = ()
        self.priced: Worth | None = None
        self._seen: set[str] = set()
        self._held: set[str] = set()
        self._learned: int
        self._fleet: Hardware
        self._hardware: Hardware | None = None
        self._nodes: tuple[Node, ...] = ()
        self._scorer: tuple[Worth, Scorer, Guards] | None = None
        self._board: Board | None = None
        self._budget: Budget | None = None
        self.rooms = KeptRooms()
        self.kinds: dict[object, int] = {}
        """Numbers of pods that no node can tell apart; what rooms know of them is kept as long as the rooms."""

    def learn(self, state: ClusterState, catalogue: Catalogue) -> Worth:
        """Count who came and who left, and make new prices when the fleet changed or enough has arrived."""
        if len(self.kinds) > _KINDS:
            self.kinds.clear()
            self.rooms.forget()
        if self._hardware is None or state.nodes != self._nodes:
            self._nodes = state.nodes
            self._hardware, classes = hardware_of(state, catalogue)
            if self.mix is None or classes != self.classes:
                prior = prior_of([Size(node.cpu_milli, node.memory_mib, len(node.devices)) for node in state.nodes])
                self.classes, self.mix, self.priced = classes, Mix(prior=prior), None
                self._seen, self._held = set(), set()
        assert self.mix is not None
        new = sorted((pod for pod in state.pods if pod.uid not in self._seen), key=lambda pod: (pod.uid, pod.name))
        for pod in new:
            self.mix.add(shape_of(pod, catalogue, self.classes))
        if new:
            self._seen = {pod.uid for pod in state.pods}
        held = {pod.uid for pod in state.pods if pod.holds}
        self.mix.left(len(self._held - held))
        self._held = held
        if self.priced is None or self._due():
            # Before anything was learnt everything counts as idle, as in the replays.
            idle = idle_of(state, catalogue, self._hardware, self.classes) if self.priced is not None else ()
            mix = self.mix
            self.priced = worth(mix.shares(), mix.typical(), self._hardware, self.settings, idle, mix.turnover)
            self._learned, self._fleet = self.mix.arrivals, self._hardware
        return self.priced

    def scorer(self) -> Scorer:
        """Scores single seats by the prices; another one when these are others."""
        return self._made()[1]

    def guards(self) -> Guards:
        """Keeps rooms for wide demand by the same prices."""
        return self._made()[2]

    def allowed(self, state: ClusterState) -> Budget:
        """What may still be moved: of those who sit here when first seen, and of all who were seated since."""
        if self._budget is None:
            self._budget = Budget(placed=sum(pod.holds for pod in state.pods))
        return self._budget

    def board(self, rooms: Mapping[str, NodeRoom], catalogue: Catalogue) -> Board:
        """The rooms as arrays: those of last time but for what changed; built anew when the classes are others."""
        # The compiler behind it takes a second to load: only who has a large cluster waits for that.
        from dure.pack.board import Board

        assert self.priced is not None
        assert self._hardware is not None
        known = self._board
        if known is None or known.classes != self.classes or known.catalogue is not catalogue:
            log = self.rooms.account()
            known = self._board = Board(rooms, self.classes, catalogue, self._hardware, self.priced, log)
        known.keep(rooms, self._hardware, self.priced)
        return known

    def _made(self) -> tuple[Worth, Scorer, Guards]:
        assert self.priced is not None
        if self._scorer is None or self._scorer[0] is not self.priced:
            scorer = Scorer(plain_tables(self.priced.tables), self.classes)
            self._scorer = self.priced, scorer, Guards(scorer, self.priced.needs(LANES).tolist())
        return self._scorer

    def _due(self) -> bool:
        """Prices hang on the mix; of the fleet only a change of its widest node makes the tables useless."""
        assert self.mix is not None
        assert self._hardware is not None
        news = self.mix.arrivals - self._learned
        wider = self._fleet.widest != self._hardware.widest
        return wider or news >= min(_LESSON, max(8, self._learned // 2))


def hardware_of(state: ClusterState, catalogue: Catalogue) -> tuple[Hardware, tuple[str, ...]]:
    """The fleet's make-up by class; a geometry of more than eight slots is priced by its idle share alone."""
    classes = tuple(sorted({device.class_name for node in state.nodes for device in node.devices})) or ("none",)
    devices = [0] * len(classes)
    for node in state.nodes:
        for device in node.devices:
            devices[classes.index(device.class_name)] += 1
    tables, slots, narrow = [], [], []
    for name in classes:
        known = catalogue.classes.get(name)
        geometry = (known.mig or known.vnpu) if known else None
        if geometry is not None and geometry.slots > _WIDEST_GEOMETRY:
            geometry = None
        tables.append(_steps(geometry) if geometry is not None else ())
        narrow.append(geometry)
        slots.append(geometry.slots if geometry is not None else 0)
    widest = max((len(node.devices) for node in state.nodes), default=1)
    hardware = Hardware(
        devices=tuple(devices),
        widest=widest,
        host_cpu=max((node.cpu_milli for node in state.nodes), default=1),
        wide_cpu=tuple(sorted({node.cpu_milli for node in state.nodes if len(node.devices) == widest})),
        steps=tuple(tables),
        slots=tuple(slots),
        geometries=tuple(narrow),
    )
    return hardware, classes


def idle_of(
    state: ClusterState, catalogue: Catalogue, hardware: Hardware, classes: tuple[str, ...]
) -> tuple[float, ...]:
    """Idle devices of each class, parts of them counted as parts. O(devices + pods)."""
    number = {name: typ for typ, name in enumerate(classes)}
    memory = [catalogue.classes[name].memory_mib if name in catalogue.classes else 0 for name in classes]
    kinds = {(node.name, one.id): number[one.class_name] for node in state.nodes for one in node.devices}
    idle = [float(count) for count in hardware.devices]
    for pod in state.pods:
        for held in pod.slices if pod.holds else ():
            typ = kinds.get((pod.node, held.device))
            if typ is not None:
                idle[typ] -= _part(held, hardware.slots[typ], memory[typ])
    return tuple(max(0.0, count) for count in idle)


def _part(held: Slice, slots: int, memory_mib: int) -> float:
    """Of a device; a share counts by what it has more of."""
    if held.mode is ShareMode.EXCLUSIVE:
        return 1.0
    if held.slots and slots:
        return held.slots / slots
    return max(held.compute_milli / WHOLE, held.memory_mib / memory_mib if memory_mib else 0.0)


@lru_cache(maxsize=64)
def _steps(geometry: Geometry) -> tuple[tuple[int, ...], ...]:
    """Of single profiles, then of the lists of profiles that a demand may have to choose from."""
    return (*steps(geometry), *cover_steps(geometry))


def shape_of(pod: Pod, catalogue: Catalogue, classes: tuple[str, ...]) -> Shape:
    """A pod's demand as the mix counts it: whole devices, a fraction, or the smallest profile that covers it."""
    demand = pod.demand
    types = sum(1 << i for i, name in enumerate(classes) if name in pod.classes) or -1
    if demand.whole:
        return Shape(demand.cpu_milli, demand.host_memory_mib, demand.devices, WHOLE, -1, types)
    milli = min(WHOLE, max(demand.compute_milli, demand.bandwidth_milli, _memory_share(pod, catalogue)))
    if not pod.classes or (milli == 0 and demand.memory_mib == 0):
        return Shape(demand.cpu_milli, demand.host_memory_mib, 0, 0, -1, types)
    profile = _profile(pod, catalogue) if set(pod.share) <= {ShareMode.MIG, ShareMode.VNPU} and pod.share else -1
    return Shape(demand.cpu_milli, demand.host_memory_mib, 1, max(1, milli), profile, types)


def _memory_share(pod: Pod, catalogue: Catalogue) -> int:
    known = catalogue.classes.get(pod.classes[0]) if pod.classes else None
    return -(-pod.demand.memory_mib * WHOLE // known.memory_mib) if known and known.memory_mib else 0


def _profile(pod: Pod, catalogue: Catalogue) -> int:
    for name in pod.classes:
        known = catalogue.classes.get(name)
        geometry = (known.mig or known.vnpu) if known else None
        if geometry is None:
            continue
        covering = [
            (profile.slots, index)
            for index, profile in enumerate(geometry.profiles)
            if profile.memory_mib >= pod.demand.memory_mib and profile.compute_milli >= pod.demand.compute_milli
        ]
        if covering:
            return min(covering)[1]
    return -1
