"""One cell of the packing benchmark: a list, a policy and a seed, replayed pod by pod; pods never leave."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec
import numpy as np

from dure.bench import pack_rivals as rivals
from dure.bench.pack_agent import AgentReplay
from dure.bench.pack_trace import Fleet, TracePod, arrival_order
from dure.model.errors import InvalidInput
from dure.pack.ask import Ask
from dure.pack.budget import Budget
from dure.pack.codes import D_CODE, H_CPU, WHOLE, Ints
from dure.pack.grid import Grid, Seat
from dure.pack.holders import Holders
from dure.pack.relocate import move_for
from dure.pack.worth import WorthSettings

POLICIES = ("dure", "dure+moves", "agent", "fgd", "bestfit", "random")
USUAL = ("dure", "fgd", "bestfit", "random")
# Pods that an agent finds waiting at one look.
_AT_ONCE = 8


class Cell(msgspec.Struct, frozen=True):
    """What one replay gave. `curve` is the allocation in percent at each whole percent arrived; `kept` is how many
    pods were placed before the first was refused."""

    alloc_pct: float
    frag_pct: float
    first_failure_pct: float
    refused_90_pct: float
    decisions: int
    seconds: float
    curve: tuple[float, ...]
    moves: int = 0
    kept: int = 0


def replay(policy: str, fleet: Fleet, pods: Sequence[TracePod], seed: int, until: float, shuffled: Fleet) -> Cell:
    """`fleet` is in the order of names; `shuffled` is the order in which the policy sees the nodes."""
    order = arrival_order(pods, fleet.capacity_milli, seed, until)
    asks = [fleet.ask(pod) for pod in pods]
    start = time.process_time()
    moves = 0
    if policy == "agent":
        nodes, left, cpu = _with_agent(shuffled, pods, order)
    elif policy.startswith("dure"):
        nodes, left, cpu, moves = _with_grid(shuffled, asks, order, policy == "dure+moves")
    else:
        nodes, left, cpu = _with_rival(policy, shuffled, pods, asks, order, seed)
    seconds = time.process_time() - start
    demand = np.array([pod.demand_milli for pod in pods])[order]
    frag = fragment_pct(shuffled, pods, left, cpu)
    return _cell(nodes, demand, fleet.capacity_milli, until, frag, seconds, moves)


def _with_grid(fleet: Fleet, asks: Sequence[Ask], order: Ints, moving: bool) -> tuple[Ints, Ints, Ints, int]:
    """Ours: the mix is learned from the pods that arrived before, never from the list."""
    distinct = len(set(asks))
    grid = Grid(fleet.hosts, fleet.hardware, WorthSettings(shapes=max(64, distinct)), shapes=max(64, distinct))
    rows = np.array([grid.row(ask) for ask in asks])
    nodes = np.full(order.shape[0], -1, np.int64)
    holders = Holders(fleet.hardware.widest)
    budget, done = Budget(), 0
    while done < order.shape[0]:
        stop = min(order.shape[0], done + grid.until_lesson())
        got, devices, bits = grid.run(rows[order[done:stop]], patient=not moving)
        stop = done + got.size
        nodes[done:stop] = got
        if moving:
            for i in np.flatnonzero(got >= 0):
                ask = asks[order[done + i]]
                holders.add(ask, Seat(int(got[i]), tuple(int(d) for d in devices[i, : ask.pieces]), int(bits[i])))
            if got[-1] < 0:
                ask, budget.placed = asks[order[stop - 1]], holders.count
                way = move_for(grid, ask, holders, budget)
                if way is not None:
                    holders.add(ask, way.seat)
                    nodes[stop - 1] = way.seat.node
        grid.arrived([asks[i] for i in order[done:stop]])
        done = stop
    left = np.zeros((len(fleet.hosts), fleet.hardware.widest), np.int64)
    at = 0
    for n, host in enumerate(fleet.hosts):
        left[n, : len(host.parts)] = grid.devs[at : at + len(host.parts), D_CODE]
        at += len(host.parts)
    return nodes, left, grid.hosts[:, H_CPU], budget.used


def _with_agent(fleet: Fleet, pods: Sequence[TracePod], order: Ints) -> tuple[Ints, Ints, Ints]:
    """Ours as agents call it, a few pods at each look at the cluster."""
    if any(pod.devices == 0 for pod in pods):
        raise InvalidInput("agents seat no pods without devices", remedy="Leave them out with --devices-only.")
    agent = AgentReplay(fleet)
    nodes = np.full(order.shape[0], -1, np.int64)
    left = np.zeros((len(fleet.hosts), fleet.hardware.widest), np.int64)
    cpu = np.array([host.cpu for host in fleet.hosts])
    for n, host in enumerate(fleet.hosts):
        left[n, : len(host.parts)] = WHOLE
    for at in range(0, order.shape[0], _AT_ONCE):
        arrived = [pods[i] for i in order[at : at + _AT_ONCE]]
        for i, (pod, bind) in enumerate(zip(arrived, agent.tick(arrived), strict=True), at):
            if bind is None:
                continue
            nodes[i] = n = agent.number[bind.node]
            cpu[n] -= pod.cpu_milli
            for part in bind.slices:
                left[n, int(part.device.partition("/")[2])] -= part.compute_milli
    return nodes, left, cpu


def _with_rival(
    policy: str, fleet: Fleet, pods: Sequence[TracePod], asks: Sequence[Ask], order: Ints, seed: int
) -> tuple[Ints, Ints, Ints]:
    shapes = {ask: row for row, ask in enumerate(dict.fromkeys(asks))}
    table = np.array([(a.cpu, a.mem, a.pieces, a.milli, a.types) for a in shapes], np.int64)
    hosts, left = rivals.state_of(fleet)
    typical, shares = rivals.typical_pods(pods, fleet)
    rows = np.array([shapes[ask] for ask in asks], np.int64)[order]
    nodes = np.full(order.shape[0], -1, np.int64)
    chance = np.random.default_rng(seed + 1_000_003).random(order.shape[0])
    rivals.replay(rivals.CODES[policy], hosts, left, table, rows, typical, shares, chance, nodes)
    return nodes, left, hosts[:, 0]


def fragment_pct(fleet: Fleet, pods: Sequence[TracePod], left: Ints, cpu: Ints) -> float:
    """FGD's own measure on the final state: expected idle devices that a typical pod cannot use, in percent."""
    typical, shares = rivals.typical_pods(pods, fleet)
    lost = sum(
        rivals.fragments(int(cpu[n]), host.typ, left[n], len(host.parts), typical, shares)
        for n, host in enumerate(fleet.hosts)
    )
    return float(100.0 * lost / fleet.capacity_milli)


def _cell(nodes: Ints, demand: Ints, capacity: int, until: float, frag: float, seconds: float, moves: int) -> Cell:
    arrived = np.cumsum(demand) * 100.0 / capacity
    held = np.cumsum(np.where(nodes >= 0, demand, 0)) * 100.0 / capacity
    at = [int(np.searchsorted(arrived, pct, side="right")) - 1 for pct in range(round(until * 100) + 1)]
    curve = tuple(round(float(held[i]), 4) if i >= 0 else 0.0 for i in at)
    failures = np.flatnonzero(nodes < 0)
    first = float(arrived[failures[0]]) if failures.size else round(until * 100, 4)
    ninety = at[min(90, len(at) - 1)]
    refused = float(arrived[ninety] - held[ninety]) if ninety >= 0 else 0.0
    return Cell(
        alloc_pct=curve[-1],
        frag_pct=round(frag, 4),
        first_failure_pct=round(first, 2),
        refused_90_pct=round(max(0.0, refused), 4),
        decisions=int(nodes.size),
        seconds=round(seconds, 4),
        moves=moves,
        curve=curve,
        kept=int(failures[0]) if failures.size else int(nodes.size),
    )
