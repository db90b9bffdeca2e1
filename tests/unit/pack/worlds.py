"""Small clusters and demands for the tests of packing."""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st

from dure.model.accelerator import AcceleratorProfile, Geometry, Kind, ShareMode, SliceProfile
from dure.model.catalogue import Catalogue
from dure.model.cluster import ClusterState, Device, Node, Pod, PodPhase
from dure.model.decision import Bind
from dure.model.demand import Demand
from dure.model.workload import WorkloadType
from dure.pack import pack
from dure.pack.ask import Ask
from dure.pack.codes import CUT, EXCLUSIVE, MPS, TIME, WHOLE
from dure.pack.grid import Grid, Host, Part
from dure.pack.slots import steps
from dure.pack.worth import Hardware


def profile(name: str, slots: int, starts: tuple[int, ...], compute: int, most: int) -> SliceProfile:
    return SliceProfile(name, slots, starts, compute, slots * 9_728, compute * 142, most)


A100 = Geometry(
    8,
    7,
    (
        profile("1g.10gb", 1, (0, 1, 2, 3, 4, 5, 6), 1, 7),
        profile("1g.20gb", 2, (0, 2, 4, 6), 1, 4),
        profile("2g.20gb", 2, (0, 2, 4), 2, 3),
        profile("3g.40gb", 4, (0, 4), 3, 2),
        profile("4g.40gb", 4, (0,), 4, 1),
        profile("7g.80gb", 8, (0,), 7, 1),
    ),
)
MODES = (ShareMode.EXCLUSIVE, ShareMode.MIG, ShareMode.MPS, ShareMode.TIMESLICE)
BIG = AcceleratorProfile(
    "big", "x", Kind.GPU, 81_920, 2000.0, {}, 400.0, 50.0, MODES, mig=A100, mps_clients=8, timeslice_clients=4
)
SMALL = AcceleratorProfile(
    "small", "x", Kind.GPU, 24_576, 600.0, {}, 150.0, 20.0, (ShareMode.EXCLUSIVE, ShareMode.MPS), mps_clients=8
)
CATALOGUE = Catalogue({"big": BIG, "small": SMALL})


def node(name: str, devices: int = 4, *, cls: str = "big", zone: str = "", rack: str = "", cpu: int = 64_000) -> Node:
    made = tuple(Device(f"{name}/{i}", cls, link_group=i // 4) for i in range(devices))
    share = CATALOGUE.classes[cls].share
    return Node(name, "pool", made, cpu, 262_144, share=share, zone=zone, rack=rack)


def pod(name: str, *, devices: int = 0, compute: int = 0, memory: int = 0, **more: object) -> Pod:
    demand = Demand(devices=devices, compute_milli=compute, memory_mib=memory, cpu_milli=2000, host_memory_mib=4096)
    fields: dict[str, object] = {
        "tenant": "t",
        "type": WorkloadType.BATCH,
        "classes": ("big",),
        "workload": name,
        "phase": PodPhase.PENDING,
        "demand": demand,
        **more,
    }
    return Pod(name=name, uid=f"uid-{name}", **fields)  # type: ignore[arg-type]


def cluster(nodes: list[Node], pods: list[Pod], now_s: float = 1000.0) -> ClusterState:
    return ClusterState("c", now_s, "v1", tuple(nodes), tuple(pods))


def running(nodes: list[Node], pods: list[Pod]) -> list[Pod]:
    """The pods bound as the packer would bind them, and running since second 100."""
    made = {one.pod: one for one in pack(cluster(nodes, pods), CATALOGUE) if isinstance(one, Bind)}
    return [
        msgspec.structs.replace(
            one, node=made[one.name].node, slices=made[one.name].slices, phase=PodPhase.RUNNING, started_s=100.0
        )
        for one in pods
    ]


_STEPS = (steps(A100), ())


def grid_of(hosts: list[Host]) -> Grid:
    widest = max(len(host.parts) for host in hosts)
    hardware = Hardware(
        devices=tuple(sum(len(host.parts) for host in hosts if host.typ == typ) for typ in range(2)),
        widest=widest,
        host_cpu=max(host.cpu for host in hosts),
        wide_cpu=tuple(sorted({host.cpu for host in hosts if len(host.parts) == widest})),
        steps=_STEPS,
        slots=(8, 0),
        geometries=(A100, None),
    )
    return Grid(hosts, hardware)


@st.composite
def hosts(draw: st.DrawFn) -> Host:
    part = Part(
        mem=draw(st.sampled_from([24_000, 80_000])),
        bw=1000,
        home=draw(st.sampled_from([0, MPS])),
        modes=draw(st.sampled_from([0b11111, 0b00110])),
        limit=draw(st.integers(1, 4)),
    )
    links = draw(st.lists(st.integers(0, 1), min_size=1, max_size=8))
    return Host(
        cpu=draw(st.integers(4, 64)) * 1000,
        mem=draw(st.integers(8, 256)) * 1024,
        typ=draw(st.integers(0, 1)),
        parts=tuple(part._replace(link=link) for link in links),
    )


HOSTS = st.lists(hosts(), min_size=1, max_size=5)


@st.composite
def asks(draw: st.DrawFn) -> Ask:
    """Whole devices, host capacity alone, a share, or a slot profile."""
    kind = draw(st.sampled_from(["whole", "host", "share", "slot"]))
    ask = Ask(
        cpu=draw(st.integers(0, 12)) * 1000,
        mem=draw(st.integers(0, 32)) * 1024,
        pieces=0,
        milli=0,
        types=draw(st.sampled_from([-1, 1, 2])),
        tenant=draw(st.integers(1, 3)),
        isolation=draw(st.integers(0, 1)),
    )
    if kind == "whole":
        return ask._replace(pieces=draw(st.integers(1, 8)), milli=WHOLE, mode=EXCLUSIVE)
    if kind == "share":
        ask = ask._replace(dmem=draw(st.sampled_from([0, 9_000, 30_000])), dbw=draw(st.sampled_from([0, 300])))
        return ask._replace(pieces=1, milli=draw(st.integers(1, 1000)), mode=draw(st.sampled_from([MPS, TIME])))
    if kind == "slot":
        return ask._replace(pieces=1, milli=100, mode=CUT, profile=draw(st.integers(0, 5)), types=1)
    return ask


ASKS = asks()
