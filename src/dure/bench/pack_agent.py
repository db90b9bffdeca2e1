"""Traces through the packer as an agent calls it: a look at the whole cluster in, decisions out, tick by tick.

For `dure bench pack --policies agent` and the rows `agent` and `agent-plain` of `dure bench pack-speed`. Every device
of the trace is one of a class by its model that MPS shares, and a pod that asks for a fraction asks for an MPS share
without memory; so prices are those of the trace's grid. Pods that ask for no device are not an agent's to seat.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec.structs import replace

from dure.bench.pack_trace import Fleet, TracePod
from dure.model.accelerator import AcceleratorProfile, Kind, ShareMode
from dure.model.catalogue import Catalogue
from dure.model.cluster import ClusterState, Device, Node, Pod, PodPhase
from dure.model.decision import Bind
from dure.model.demand import Demand
from dure.model.workload import WorkloadType
from dure.pack import Memory, PackSettings, pack
from dure.pack.codes import WHOLE

# Neither preemption nor moves: what is measured is choosing seats.
ARRAYS = PackSettings(preempt=False, moves_per_tenant=0, arrays_from=0)
PLAIN = replace(ARRAYS, arrays_from=1 << 40)
_SHARE = (ShareMode.EXCLUSIVE, ShareMode.MPS)
_MEMORY_MIB = 16_384


class AgentReplay:
    """A cluster that fills up. `spent_s` is processor time inside the packer, `first_s` that of the first look."""

    def __init__(self, fleet: Fleet, packing: PackSettings = ARRAYS) -> None:
        self.catalogue = Catalogue({name: _class(name) for name in fleet.models})
        self.nodes = tuple(
            Node(
                f"node-{n:06d}",
                "pool",
                tuple(Device(f"{n}/{d}", fleet.models[host.typ], ShareMode.MPS) for d in range(len(host.parts))),
                host.cpu,
                host.mem,
                share=_SHARE,
            )
            for n, host in enumerate(fleet.hosts)
        )
        self.number = {node.name: n for n, node in enumerate(self.nodes)}
        self.models = fleet.models
        self.memory = Memory()
        self.bound: list[Pod] = []
        self.packing = packing
        self.ticks = self.seen = 0
        self.spent_s = self.first_s = self.worst_s = 0.0

    def tick(self, arrived: Sequence[TracePod]) -> list[Bind | None]:
        """What became of each pod; who gets no seat goes away again."""
        pods = [self._pod(pod, self.seen + i) for i, pod in enumerate(arrived)]
        self.seen += len(pods)
        self.ticks += 1
        state = ClusterState("bench", float(self.ticks), str(self.ticks), self.nodes, (*self.bound, *pods))
        start = time.process_time()
        decisions = pack(state, self.catalogue, self.memory, self.packing)
        spent = time.process_time() - start
        if self.ticks == 1:
            self.first_s = spent
        else:
            self.spent_s += spent
            self.worst_s = max(self.worst_s, spent / len(pods))
        made = {one.pod: one for one in decisions if isinstance(one, Bind)}
        for pod in pods:
            bind = made.get(pod.name)
            if bind is not None:
                seated = replace(pod, node=bind.node, slices=bind.slices, phase=PodPhase.RUNNING, started_s=0.0)
                self.bound.append(seated)
        return [made.get(pod.name) for pod in pods]

    def _pod(self, pod: TracePod, number: int) -> Pod:
        whole = pod.devices > 1 or pod.milli >= WHOLE
        return Pod(
            name=f"pod-{number:07d}",
            uid=f"uid-{number}",
            tenant="bench",
            type=WorkloadType.BATCH,
            demand=Demand(
                pod.devices if whole else 0,
                compute_milli=0 if whole else pod.milli,
                cpu_milli=pod.cpu_milli,
                host_memory_mib=pod.memory_mib,
            ),
            classes=pod.models or self.models,
            workload=f"pod-{number:07d}",
            created_s=float(number),
        )


def _class(name: str) -> AcceleratorProfile:
    return AcceleratorProfile(
        name, "trace", Kind.GPU, _MEMORY_MIB, 1000.0, {}, 300.0, 50.0, _SHARE, mps_clients=WHOLE
    )  # fmt: skip
