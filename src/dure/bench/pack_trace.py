"""Nodes and pods of a cluster trace (columns of Alibaba's openb lists), and the arrival order of the FGD study."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from dure.bench.data import read_rows
from dure.model.errors import InvalidInput
from dure.pack.ask import Ask, device_ask
from dure.pack.codes import WHOLE
from dure.pack.grid import Host, Part
from dure.pack.worth import Hardware


class TraceNode(msgspec.Struct, frozen=True):
    name: str
    cpu_milli: int
    memory_mib: int
    devices: int
    model: str


class TracePod(msgspec.Struct, frozen=True):
    """`milli` of each of `devices`; `models` empty means any. Times are seconds, -1 where the list has none."""

    name: str
    cpu_milli: int
    memory_mib: int
    devices: int
    milli: int
    models: tuple[str, ...] = ()
    created_s: int = -1
    deleted_s: int = -1

    @property
    def demand_milli(self) -> int:
        return self.devices * self.milli


def read_nodes(path: Path) -> list[TraceNode]:
    """Nodes with at least one device, sorted by name."""
    nodes = []
    for line, row in enumerate(read_rows(path), 2):
        whole = _ints(row, ("cpu_milli", "memory_mib", "gpu"), path, line)
        if whole["gpu"] > 0:
            name, model = _text(row, "sn", path, line), _text(row, "model", path, line)
            nodes.append(TraceNode(name, whole["cpu_milli"], whole["memory_mib"], whole["gpu"], model))
    if not nodes:
        raise InvalidInput(
            "no node with devices", where=str(path), remedy="Columns: sn,cpu_milli,memory_mib,gpu,model"
        )
    return sorted(nodes, key=lambda node: node.name)


def read_pods(path: Path) -> list[TracePod]:
    """Pods sorted by name. `gpu_milli` counts only where one device is asked for."""
    pods = []
    for line, row in enumerate(read_rows(path), 2):
        whole = _ints(row, ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli"), path, line)
        devices = whole["num_gpu"]
        milli = whole["gpu_milli"] if devices == 1 else WHOLE if devices else 0
        if devices == 1 and not 0 < milli <= WHOLE:
            raise InvalidInput(f"gpu_milli {milli} is not in 1..1000", where=f"{path}:{line}")
        models = tuple(sorted({model for model in (row.get("gpu_spec") or "").split("|") if model}))
        created, deleted = (int(row[key]) if row.get(key) else -1 for key in ("creation_time", "deletion_time"))
        name = _text(row, "name", path, line)
        pods.append(TracePod(name, whole["cpu_milli"], whole["memory_mib"], devices, milli, models, created, deleted))
    if not pods:
        raise InvalidInput("no pods", where=str(path), remedy="Columns: name,cpu_milli,memory_mib,num_gpu,gpu_milli")
    return sorted(pods, key=lambda pod: pod.name)


def _text(row: dict[str, str], key: str, path: Path, line: int) -> str:
    if not row.get(key):
        raise InvalidInput(f"column '{key}' is missing or empty", where=f"{path}:{line}")
    return row[key]


def _ints(row: dict[str, str], keys: Sequence[str], path: Path, line: int) -> dict[str, int]:
    found = {}
    for key in keys:
        text = row.get(key)
        try:
            found[key] = int(text or "")
        except ValueError:
            raise InvalidInput(f"column '{key}' is {text!r}, not a whole number", where=f"{path}:{line}") from None
        if found[key] < 0:
            raise InvalidInput(f"column '{key}' is negative", where=f"{path}:{line}")
    return found


def arrival_order(pods: Sequence[TracePod], capacity_milli: int, seed: int, until: float) -> NDArray[np.int64]:
    """The list shuffled by the seed, then pods drawn again until the demand is `until` times the capacity."""
    rng = np.random.default_rng(seed)
    demand = np.array([pod.demand_milli for pod in pods])
    if demand.sum() == 0:
        raise InvalidInput("the pods ask for no devices at all, so there is nothing to fill", where="pods")
    order = rng.permutation(len(pods))
    missing = until * capacity_milli - demand.sum()
    while missing > 0:
        more = rng.integers(len(pods), size=256)
        order = np.concatenate([order, more])
        missing -= int(demand[more].sum())
    arrived = np.cumsum(demand[order])
    return order[: int(np.searchsorted(arrived, until * capacity_milli)) + 1].astype(np.int64)


class Fleet(msgspec.Struct, frozen=True):
    """A trace's nodes as the grid takes them; models in sorted order are the types."""

    hosts: tuple[Host, ...]
    hardware: Hardware
    models: tuple[str, ...]

    @property
    def capacity_milli(self) -> int:
        return sum(self.hardware.devices) * WHOLE

    def ask(self, pod: TracePod) -> Ask:
        """A pod in numbers. A model that no node has leaves the pod without a place, not without a demand."""
        types = (1 << len(self.models)) - 1
        if pod.models:
            types = sum(1 << self.models.index(model) for model in pod.models if model in self.models)
        return device_ask(pod.cpu_milli, pod.memory_mib, pod.devices, pod.milli, types)


def fleet_of(nodes: Sequence[TraceNode]) -> Fleet:
    models = tuple(sorted({node.model for node in nodes}))
    hosts = tuple(
        Host(node.cpu_milli, node.memory_mib, models.index(node.model), (Part(),) * node.devices) for node in nodes
    )
    return Fleet(hosts, hardware_of(hosts, len(models)), models)


def hardware_of(hosts: Sequence[Host], types: int) -> Hardware:
    devices = [0] * types
    for host in hosts:
        devices[host.typ] += len(host.parts)
    widest = max(len(host.parts) for host in hosts)
    return Hardware(
        devices=tuple(devices),
        widest=widest,
        host_cpu=max(host.cpu for host in hosts),
        wide_cpu=tuple(sorted({host.cpu for host in hosts if len(host.parts) == widest})),
    )
