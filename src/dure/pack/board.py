"""The rooms of one live cluster as arrays, kept up to date by what changed: which nodes are worth a closer look.

Built from rooms once; afterwards a room that was built anew, taken or given back is written again, O(devices of the
node), and a node that comes or goes takes or leaves a row. The arrays answer which nodes cost a pod least, by the
same prices as `score` and the same index as the replays of `dure bench pack`; `seating` then looks at those few as it
would look at all. Invariant: after `keep`, the arrays say what a board built from the same rooms would say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dure.model.catalogue import Catalogue
from dure.model.cluster import Node, Pod
from dure.pack import commit, index
from dure.pack.ask import Ask
from dure.pack.asking import asks_of, expressible
from dure.pack.clearing import might_move
from dure.pack.codes import H_CPU, H_FIRST, H_GATES, H_MEM, H_RANK, H_SIZE, H_TYPE, Ints
from dure.pack.encoding import Tenants, written
from dure.pack.fit import node_clash
from dure.pack.grid import Grid, Host, Part
from dure.pack.held import Held, seat_of
from dure.pack.room import NodeRoom
from dure.pack.worth import Hardware, Worth

# Bits of a node's word.
_GATES = 60
_EMPTY = Host(0, 0, 0, ())
# More kinds of holders than any cluster has at once: those of long ago are forgotten.
_KINDS = 1024
_ASKS = 4096


class Filter(NamedTuple):
    """A number, and one of the pods whom the same nodes let in by pool, taints and labels."""

    number: int
    pod: Pod


class Board:
    """`at` is the row of a node; `odd` rooms are those the arrays cannot tell about, `fences` keep others away."""

    def __init__(
        self, rooms: Mapping[str, NodeRoom], classes: tuple[str, ...], catalogue: Catalogue, hardware: Hardware,
        priced: Worth, log: list[NodeRoom],
    ) -> None:  # fmt: skip
        self.classes, self.catalogue, self.hardware, self.priced = classes, catalogue, hardware, priced
        self.odd: dict[str, NodeRoom] = {}
        self.fences: dict[str, NodeRoom] = {}
        self._log = log
        self._types = {name: typ for typ, name in enumerate(classes)}
        self._tenants = Tenants()
        self._gates: dict[tuple[object, ...], Filter] = {}
        self._asks: dict[tuple[object, ...], tuple[Ask, ...]] = {}
        self._held: Held | None = None
        self._build(rooms)

    def keep(self, rooms: Mapping[str, NodeRoom], hardware: Hardware, priced: Worth) -> None:
        """Catch up with the cluster and with the prices; these are for nodes up to the widest, no wider."""
        wide, self.hardware = hardware.widest != self.hardware.widest, hardware
        self.grid.hardware = hardware
        if wide:
            self.priced = priced
            self._build(rooms)
            return
        if priced is not self.priced:
            self.priced = priced
            self.grid.adopt(priced)
        if len(rooms) != len(self.at) or any(room.node.name not in self.at for room in self._log):
            self._renew(rooms)
        self._catch_up()

    def asks(self, pod: Pod) -> tuple[Ask, ...] | None:
        """None for a pod whom the arrays cannot answer."""
        if not expressible(pod, self.classes) or (self.fences and self._fenced(pod)):
            return None
        return self._asks_of(pod)

    def _asks_of(self, pod: Pod) -> tuple[Ask, ...]:
        tenant = self._tenants.asking(pod.tenant)
        if pod.isolation.walls_devices:
            self._tenants.walls(pod.tenant)
            tenant = self._tenants.asking(pod.tenant)
        gate = self._gate(pod)
        told = (tenant, pod.isolation, pod.demand, pod.classes, pod.share, gate)
        known = self._asks.get(told)
        if known is None:
            if len(self._asks) > _ASKS:
                self._asks.clear()
            known = self._asks[told] = asks_of(pod, self.classes, self.catalogue, tenant, gate)
        return known

    def near(self, asks: Sequence[Ask]) -> list[str]:
        """Nodes that cost least, one for each state of a node; `odd` ones are not among them."""
        self._catch_up()
        grid, best, lowest = self.grid, list[int](), 0
        commit.set_guard(grid.index.guard, grid.totals, grid.needs)
        for ask in asks:
            row = grid.row(ask)
            count, price = index.nearest(
                *grid.index, grid.hosts, grid.devs, *grid.priced.tables, row, self._out
            )  # fmt: skip
            if count and (not best or price <= lowest):
                best = (best if best and price == lowest else []) + self._out[:count].tolist()
                lowest = price
        return [self.names[n] for n in best]

    def near_of(self, asks: Sequence[Ask], among: Ints | None, crowds: Ints | None) -> list[str]:
        """The same among some nodes (None: all), the smallest crowd first."""
        self._catch_up()
        grid, best = self.grid, list[int]()
        least: tuple[int, int] = (0, 0)
        nodes = among if among is not None else np.arange(len(self.names))
        crowds = crowds if crowds is not None else np.zeros(len(self.names), np.int64)
        commit.set_guard(grid.index.guard, grid.totals, grid.needs)
        for ask in asks:
            row = grid.row(ask)
            count, price, crowd = index.nearest_of(
                *grid.index, grid.hosts, grid.devs, *grid.priced.tables, row, nodes, crowds, self._out
            )  # fmt: skip
            if count and (not best or (crowd, price) <= least):
                best = (best if best and (crowd, price) == least else []) + self._out[:count].tolist()
                least = (crowd, price)
        return [self.names[n] for n in best]

    def crowds(self, counts: Mapping[str, int]) -> Ints:
        """For each row how many mates there are in its zone, rack and node, the zone before all."""
        zones = np.array([counts.get(name, 0) for name in self._zones], np.int64)
        racks = np.array([counts.get(name, 0) for name in self._racks], np.int64)
        found: Ints = (zones[self._zone_of] << 40) + (racks[self._rack_of] << 20)
        for name, count in counts.items():
            n = self.at.get(name.removeprefix("node ")) if name.startswith("node ") else None
            if n is not None:
                found[n] += count
        return found

    def mates(self, workload: str) -> Iterable[NodeRoom]:
        """Rooms with pods of this workload."""
        self._catch_up()
        return (self.rooms[name] for name in self._workloads.get(workload, {}))

    def held(self) -> Held:
        """Who sits where; kept from the first time that somebody asks."""
        self._catch_up()
        if self._held is None or len(self._held.holders.kinds) > _KINDS:
            self._held = Held(max(1, self.hardware.widest, *(len(room.devices) for room in self.rooms.values())))
            for room in self.rooms.values():
                self._hold(room)
        return self._held

    def write_again(self, names: Iterable[str]) -> None:
        """What was tried out on these nodes is undone: they are what their rooms say."""
        for name in sorted(names):
            self._write(self.rooms[name])

    def rows_of(self, names: Iterable[str]) -> Ints:
        return np.array([self.at[name] for name in names], np.int64)

    def stock(self) -> tuple[int, list[int]]:
        """Idle thousandths of the cluster, and how many nodes stand in each lane."""
        self._catch_up()
        return int(self.grid.totals[0]), self.grid.totals[1:].tolist()

    def _fenced(self, pod: Pod) -> bool:
        """Whether somebody who is there says something about pods like this one."""
        self._catch_up()
        return any(
            term.matches(pod.namespace, pod.labels)
            for room in self.fences.values()
            for name in room.fences
            for term in room.pods[name].rules.apart
        )

    def _gate(self, pod: Pod) -> int:
        told = (pod.pool, pod.tolerations, tuple(sorted(pod.selector.items())))
        known = self._gates.get(told)
        if known is None:
            if len(self._gates) >= _GATES:
                self._forget_gates()
            known = self._gates[told] = Filter(len(self._gates), pod)
            for name, n in self.at.items():
                if name not in self.odd and _lets_in(pod, self.rooms[name].node):
                    self.grid.hosts[n, H_GATES] |= 1 << known.number
        return known.number

    def _forget_gates(self) -> None:
        """More than there are bits for: start anew, with no ask that knows an old number."""
        self._gates.clear()
        self._asks.clear()
        self._held = None
        self.grid.forget()
        self.grid.hosts[:, H_GATES] = 0

    def _build(self, rooms: Mapping[str, NodeRoom]) -> None:
        """From nothing, with rows to spare for nodes that come."""
        names = sorted(rooms)
        spare = max(8, len(names) // 8)
        widest = max((len(room.devices) for room in rooms.values()), default=1)
        hosts = [Host(0, 0, 0, (Part(),) * len(rooms[name].devices)) for name in names] + [_EMPTY] * spare
        tail = Host(0, 0, 0, (Part(),) * (spare * widest))
        settings = self.priced.settings
        grid = Grid([*hosts, tail], self.hardware, settings, shapes=min(64, settings.shapes), priced=self.priced)
        # The tail only made room for devices: its row is one to spare as well.
        self._end = int(grid.hosts[-1, H_FIRST])
        grid.hosts[-1, H_SIZE] = 0
        grid.hosts[:, H_GATES] = 0
        self.grid = grid
        self.at = {name: n for n, name in enumerate(names)}
        self.names = [*names, *[""] * (spare + 1)]
        self._free = list(range(len(names), len(self.names)))
        self.rooms: dict[str, NodeRoom] = {}
        self._workloads: dict[str, dict[str, int]] = {}
        self._here: dict[str, tuple[str, ...]] = {}
        self._out = np.empty(len(self.names), np.int64)
        self._zones: dict[str, int] = {}
        self._racks: dict[str, int] = {}
        self._zone_of, self._rack_of = np.zeros(len(self.names), np.int64), np.zeros(len(self.names), np.int64)
        self.odd.clear()
        self.fences.clear()
        self._held = None
        grid.adopt(self.priced)
        for name in names:
            self._write(rooms[name])
        self._log.clear()

    def _renew(self, rooms: Mapping[str, NodeRoom]) -> None:
        """Nodes that went leave their rows, nodes that came take one; without a row to spare, all is built again."""
        for name in [name for name in self.at if name not in rooms]:
            self._leave(name)
        came = sorted(name for name in rooms if name not in self.at)
        for name in came:
            if not self._enter(name, len(rooms[name].devices)):
                self._build(rooms)
                return
            self._write(rooms[name])
        for rank, name in enumerate(sorted(self.at)):
            self.grid.hosts[self.at[name], H_RANK] = rank

    def _leave(self, name: str) -> None:
        n = self.at.pop(name)
        self._recount(name, None)
        self.odd.pop(name, None)
        self.fences.pop(name, None)
        del self.rooms[name]
        if self._held is not None:
            self._held.leave(name)
        self.names[n] = ""
        self._free.append(n)
        self._set(n, (0, 0, 0, int(self.grid.hosts[n, H_FIRST]), 0), [], 0)

    def _enter(self, name: str, devices: int) -> bool:
        if not self._free or self._end + devices > len(self.grid.devs):
            return False
        n = self._free.pop()
        self.at[name], self.names[n] = n, name
        self.grid.hosts[n, H_FIRST], self._end = self._end, self._end + devices
        return True

    def _catch_up(self) -> None:
        if not self._log:
            return
        changed = {room.node.name: room for room in self._log if room.node.name in self.at}
        self._log.clear()
        for name, room in changed.items():
            if len(room.devices) != self.grid.hosts[self.at[name], H_SIZE]:
                self._leave(name)
                if not self._enter(name, len(room.devices)):
                    self._build({**self.rooms, name: room})
                    return
            self._write(room)

    def _write(self, room: NodeRoom) -> None:
        node = room.node
        n = self.at[node.name]
        before = self.rooms.get(node.name)
        rows, odd = written(room, self._tenants)
        same = before is not None and before.node is node and (node.name in self.odd) == odd
        gates = int(self.grid.hosts[n, H_GATES]) if same else self._word(node, odd)
        if before is None or before.node is not node:
            self._zone_of[n] = self._zones.setdefault(f"zone {node.zone}", len(self._zones))
            self._rack_of[n] = self._racks.setdefault(f"rack {node.zone}/{node.rack}", len(self._racks))
        for kept, wanted in ((self.odd, odd), (self.fences, bool(room.fences))):
            if wanted:
                kept[node.name] = room
            else:
                kept.pop(node.name, None)
        self._recount(node.name, room)
        self.rooms[node.name] = room
        self._hold(room)
        first = int(self.grid.hosts[n, H_FIRST])
        self._set(n, (room.cpu_milli, room.memory_mib, self._typ(room), first, len(rows)), rows, gates)

    def _hold(self, room: NodeRoom) -> None:
        if self._held is None:
            return
        n = self.at[room.node.name]
        typ, first = self._typ(room), int(self.grid.hosts[n, H_FIRST])
        seats = []
        for pod in room.pods.values():
            asks = self._asks_of(pod) if might_move(pod) and expressible(pod, self.classes) else ()
            found = seat_of(pod, asks, room, n, typ, first) if asks else None
            if found is not None:
                seats.append((pod, *found))
        self._held.write(room.node.name, seats)

    def _typ(self, room: NodeRoom) -> int:
        """That of its first device, as `score` takes it."""
        first = next(iter(room.devices.values()), None)
        return self._types.get(first.device.class_name, 0) if first is not None else 0

    def _word(self, node: Node, odd: bool) -> int:
        if odd:
            return 0
        return sum(1 << gate.number for gate in self._gates.values() if _lets_in(gate.pod, node))

    def _recount(self, name: str, room: NodeRoom | None) -> None:
        """Which workloads are on the node."""
        for workload in self._here.pop(name, ()):
            self._workloads[workload].pop(name, None)
            if not self._workloads[workload]:
                del self._workloads[workload]
        if room is not None:
            self._here[name] = tuple(room.workloads)
            for workload, count in room.workloads.items():
                self._workloads.setdefault(workload, {})[name] = count

    def _set(self, n: int, host: tuple[int, ...], rows: list[tuple[int, ...]], gates: int) -> None:
        grid, t = self.grid, self.priced.tables
        commit.lift(grid.hosts, grid.devs, t.idles, grid.totals, n)
        grid.hosts[n, [H_CPU, H_MEM, H_TYPE, H_FIRST, H_SIZE]] = host
        grid.hosts[n, H_GATES] = gates
        if rows:
            grid.devs[host[3] : host[3] + len(rows)] = rows
        commit.settle(grid.hosts, grid.devs, t.levels, t.value, t.rates, t.idles, t.scal, grid.totals, n)
        grid.changed(n)


def _lets_in(pod: Pod, node: Node) -> bool:
    return (not pod.pool or node.pool == pod.pool) and node_clash(pod, node) is None
