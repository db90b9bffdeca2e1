"""The arrays of a live cluster: kept by what changed they equal fresh ones, and choose as looking at all does."""

from __future__ import annotations

from collections.abc import Callable, Generator
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dure.model.accelerator import ShareMode
from dure.model.affinity import Match, Operator, PodTerm, Rules
from dure.model.cluster import ClusterState, Device, Node, NodePhase, Pod, PodPhase, Taint, Toleration
from dure.model.decision import Bind, Decision, Evict, Resize
from dure.model.demand import Demand
from dure.model.tenant import Isolation
from dure.model.workload import WorkloadType
from dure.pack import Memory, PackSettings, pack
from dure.pack.board import Board
from dure.pack.codes import D_OWNER, H_CPU, H_FIRST, H_GATES, H_LANE, H_MEM, H_PHI, H_SIZE, H_TYPE
from dure.pack.seating import world_of
from dure.pack.worth import WorthSettings
from tests.unit.pack.worlds import CATALOGUE, MODES, cluster, pod
from tests.unit.pack.worlds import node as workers

# Without moves, which large and small clusters seek in different ways.
ARRAYS, PLAIN = PackSettings(True, 0, arrays_from=0), PackSettings(True, 0, arrays_from=1 << 30)
SEEDS = st.integers(0, 2**32)
Story = Generator[ClusterState, tuple[Decision, ...], None]
HOST = [H_CPU, H_MEM, H_TYPE, H_SIZE, H_LANE, H_PHI]
MIG, MPS, TIME = ShareMode.MIG, ShareMode.MPS, ShareMode.TIMESLICE
COMPUTE = [0, 100, 250, 500, 700, 1000]
SHARES = [MODES, (ShareMode.EXCLUSIVE, MPS), (MIG,), (MPS, TIME), (ShareMode.EXCLUSIVE,), (MIG, MPS)]


def node(chance: Random, name: str) -> Node:
    """Anything a cluster has: two classes, sometimes on one node, ill devices, modes, racks, taints, labels."""
    cls = chance.choice(["big", "big", "small"])
    devices = []
    for i in range(chance.randint(0, 5)):
        mode = chance.choice([ShareMode.EXCLUSIVE, ShareMode.EXCLUSIVE, MPS, MIG if cls == "big" else MPS])
        other = "small" if chance.randint(0, 30) == 0 else cls
        healthy = chance.randint(0, 9) > 0
        devices.append(Device(f"{name}/{i}", other, mode, chance.randint(0, 1), healthy))
    return Node(
        name,
        chance.choice(["p", "p", "q"]),
        tuple(devices),
        chance.choice([16_000, 64_000]),
        262_144,
        share=chance.choice(SHARES) if cls == "big" else (ShareMode.EXCLUSIVE, MPS),
        phase=chance.choice([NodePhase.READY] * 8 + [NodePhase.DRAINING]),
        zone=chance.choice(["a", "b"]),
        rack=chance.choice(["", "r", "s"]),
        labels=chance.choice([{}, {"disk": "fast"}]),
        taints=chance.choice([(), (), (), (Taint("own"),)]),
    )


def workload(chance: Random, name: str) -> list[Pod]:
    """A workload: training alone or as a gang, batch on a share, or serving; now and then with rules or walls."""
    kind = chance.choice(["whole", "gang", "share", "share", "serve"])
    devices = chance.randint(1, 4) if kind in ("whole", "gang") else 0
    shared = {"memory_mib": chance.choice([0, 4_000, 12_000, 30_000]), "compute_milli": chance.choice(COMPUTE)}
    demand = Demand(
        devices,
        cpu_milli=chance.choice([500, 4_000, 9_000]),
        host_memory_mib=4096,
        bandwidth_milli=0 if devices else chance.choice([0, 250]),
        **({} if devices else shared),
    )
    rules = Rules()
    if chance.randint(0, 20) == 0:
        rules = Rules(
            apart=(PodTerm(topology="zone", selector=(Match("app", Operator.IN, ("x",)),), namespaces=("",)),)
        )
    one = Pod(
        name=name,
        uid=f"uid-{name}",
        tenant=chance.choice(["t", "u", "v"]),
        type=WorkloadType.SERVING if kind == "serve" else WorkloadType.TRAINING if devices else WorkloadType.BATCH,
        demand=demand,
        classes=chance.choice([("big",), ("big", "small"), ("small", "big"), ("small",)]),
        workload=name,
        pool=chance.choice(["", "", "p", "q"]),
        share=chance.choice([(), (), (MIG,), (MPS,), (MPS, TIME), (ShareMode.EXCLUSIVE, MIG)]),
        isolation=chance.choice([Isolation.SHARED] * 6 + [Isolation.OWN_DEVICE, Isolation.OWN_NODE]),
        priority=chance.randint(0, 1),
        interruptible=chance.random() < 0.5,
        tolerations=chance.choice([(), (Toleration("own", "Exists"),)]),
        selector=chance.choice([{}, {}, {"disk": "fast"}]),
        labels=chance.choice([{}, {"app": "x"}]),
        rules=rules,
    )
    if kind == "gang":
        return [replace(one, name=f"{name}-{i}", uid=f"uid-{name}-{i}", gang=3, index=i) for i in range(3)]
    if kind == "serve":
        return [replace(one, name=f"{name}-{i}", uid=f"uid-{name}-{i}", index=i) for i in range(chance.randint(1, 3))]
    return [one]


def story(chance: Random) -> Story:
    """Looks at one cluster, each after the packer has acted on the one before and the world has gone on."""
    here = {f"n{i}": node(chance, f"n{i}") for i in range(chance.randint(1, 7))}
    bound: list[Pod] = []
    for tick in range(chance.randint(1, 5)):
        waiting = [one for i in range(chance.randint(1, 6)) for one in workload(chance, f"w{tick}{i}")]
        state = cluster(list(here.values()), [*bound, *waiting], 1000.0 + 100 * tick)
        state = after(state, (yield state))
        here = {node.name: node for node in state.nodes}
        bound = [one for one in state.pods if one.node and chance.randint(0, 4)]
        for name in list(here):
            fate = chance.choice(["stay"] * 8 + ["go", "change", "cut"])
            if fate == "go" and not any(one.node == name for one in bound) and len(here) > 1:
                del here[name]
            elif fate == "change":
                here[name] = replace(here[name], taints=chance.choice([(), (Taint("own"),)]))
            elif fate == "cut":
                here[name] = replace(here[name], devices=here[name].devices[1:])
        for i in range(chance.randint(0, 2)):
            here[f"m{tick}{i}"] = node(chance, f"m{tick}{i}")


def tell(seed: int, act: Callable[[ClusterState], tuple[Decision, ...]]) -> None:
    """Have somebody act on every look of a story."""
    telling = story(Random(seed))
    try:
        state = next(telling)
        while True:
            state = telling.send(act(state))
    except StopIteration:
        return


def after(state: ClusterState, decisions: tuple[Decision, ...]) -> ClusterState:
    """The cluster once it has done what was decided."""
    made = {one.pod: one for one in decisions if isinstance(one, Bind)}
    gone = {one.pod for one in decisions if isinstance(one, Evict)}
    modes = {(one.node, one.device): one.mode for one in decisions if isinstance(one, Resize)}
    touched = {node for node, _ in modes}
    changed = tuple(
        replace(node, devices=tuple(replace(d, mode=modes.get((node.name, d.id), d.mode)) for d in node.devices))
        if node.name in touched
        else node
        for node in state.nodes
    )
    left = [
        replace(one, node=made[one.name].node, slices=made[one.name].slices, phase=PodPhase.RUNNING, started_s=0.0)
        if one.name in made
        else one
        for one in state.pods
        if one.name not in gone
    ]
    return replace(state, nodes=changed, pods=tuple(left))


def test_a_wider_node_that_comes_and_goes_is_priced_as_one() -> None:
    memory = Memory()
    small = [workers(f"n{i}", 2) for i in range(3)]
    for nodes in (small, [*small, workers("wide", 12)], small, small[1:]):
        state = cluster(nodes, [pod(f"p{i}", devices=2) for i in range(3)])
        found = pack(state, CATALOGUE, memory, ARRAYS)
        assert found == pack(state, CATALOGUE, Memory(), PLAIN)
        board = world_of(state, CATALOGUE, memory, ARRAYS).board
        assert board is not None
        assert board.grid.hardware.widest == max(len(one.devices) for one in nodes)


def test_more_filters_than_there_are_bits_are_told_apart_as_well() -> None:
    memory, nodes = Memory(), [replace(workers(f"n{i:02}", 1), labels={"slot": str(i % 90)}) for i in range(90)]
    for at in range(0, 90, 30):
        wanted = [pod(f"p{i}", devices=1, selector={"slot": str(i)}) for i in range(at, at + 30)]
        found = pack(cluster(nodes, wanted), CATALOGUE, memory, ARRAYS)
        assert {one.pod: one.node for one in found if isinstance(one, Bind)} == {
            f"p{i}": f"n{i:02}" for i in range(at, at + 30)
        }


def figures(board: Board) -> dict[str, object]:
    """What the arrays say of every node, without what hangs on which row or number somebody got."""
    told: dict[str, object] = {}
    gates = {key: gate.number for key, gate in board._gates.items()}
    for name, n in board.at.items():
        host = board.grid.hosts[n]
        rows = board.grid.devs[host[H_FIRST] : host[H_FIRST] + host[H_SIZE]].copy()
        rows[:, D_OWNER] = (rows[:, D_OWNER] > 0) * 1 - (rows[:, D_OWNER] < 0)
        open_to = {key for key, number in gates.items() if int(host[H_GATES]) >> number & 1}
        told[name] = host[HOST].tolist(), rows.tolist(), open_to
    totals = board.grid.totals.tolist()
    return {**told, "idle": totals[0], "lanes": totals[2:], "odd": set(board.odd), "fenced": set(board.fences)}


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_arrays_that_are_kept_decide_as_looking_at_every_node_does(seed: int) -> None:
    # Also with fewer rows of the index than there are kinds of pods.
    tables = WorthSettings(shapes=2 if seed % 2 else 192)
    kept, plain = Memory(tables), Memory(tables)

    def act(state: ClusterState) -> tuple[Decision, ...]:
        expected = pack(state, CATALOGUE, plain, PLAIN)
        assert pack(state, CATALOGUE, kept, ARRAYS) == expected
        return expected

    tell(seed, act)


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_arrays_that_are_kept_are_those_that_would_be_built_anew(seed: int) -> None:
    kept = Memory()

    def act(state: ClusterState) -> tuple[Decision, ...]:
        decisions = pack(state, CATALOGUE, kept, ARRAYS)
        board = world_of(state, CATALOGUE, kept, ARRAYS).board
        assert board is not None
        rooms = {name: board.rooms[name] for name in board.at}
        fresh = Board(rooms, kept.classes, CATALOGUE, board.hardware, board.priced, [])
        for gate in board._gates.values():
            fresh._gate(gate.pod)
        assert figures(board) == figures(fresh)
        assert {name: room.node for name, room in rooms.items()} == {one.name: one for one in state.nodes}
        return decisions

    tell(seed, act)
