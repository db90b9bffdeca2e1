"""`dure bench pack-speed`: packing decisions per second as the cluster grows, against plain numpy in the same run.

Nodes of the public trace are copied until there are enough; pods arrive in a shuffled order until the fleet is full.
Opponents are FGD and best fit as one would write them well in numpy: a node's score for a shape is kept until the
node changes, and all stale nodes, their devices and the typical shapes are scored in one dense expression. Seconds
are of the processor, so neighbours on the machine count less.
"""

from __future__ import annotations

import time
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from dure.bench import pack_rivals as rivals
from dure.bench.data import data_file
from dure.bench.pack_agent import ARRAYS, PLAIN, AgentReplay
from dure.bench.pack_trace import Fleet, TracePod, arrival_order, fleet_of, read_nodes, read_pods
from dure.bench.progress import cells
from dure.bench.result import Result, bench_options, emit
from dure.model.errors import InvalidInput
from dure.pack.codes import WHOLE
from dure.pack.grid import Grid
from dure.pack.mix import Mix
from dure.pack.worth import WorthSettings

_SIZES = (1_213, 10_000, 50_000)

# The packer as agents call it, through the arrays and without: how many pods in all, and at one look.
AGENTS = {"agent": (ARRAYS, 4_096, 64), "agent-plain": (PLAIN, 48, 16)}
POLICIES = ("dure", "numpy-fgd", "numpy-bestfit", *AGENTS)
# Plain numpy needs minutes on large clusters; what it did in this time says enough.
_PATIENCE_S = 15.0
# Nodes in one dense expression: more would not stay in the processor's cache.
_DENSE = 512


@click.command()
@click.option(
    "--decisions", default=60_000, show_default=True, type=click.IntRange(1_000), help="Most per size, ours."
)
@click.option("--plain-decisions", default=4_500, show_default=True, type=click.IntRange(100), help="Most, numpy.")
@click.option("--policies", default=",".join(POLICIES), show_default=True, help="Comma-separated.")
@click.option("--seed", default=42, show_default=True, type=click.IntRange(0))
@bench_options
def command(
    decisions: int, plain_decisions: int, policies: str, seed: int, as_json: bool, report: Any
) -> None:  # fmt: skip
    """Decide as fast as possible on 1.2k, 10k and 50k nodes.

    \b
    Example:
      dure bench pack-speed --json
    """
    nodes = read_nodes(data_file("openb/openb_node_list_gpu_node.csv"))
    pods = read_pods(data_file("openb/openb_pod_list_default.csv"))
    rows: list[dict[str, Any]] = []
    chosen = [name for name in POLICIES if name in policies.split(",")]
    if not chosen:
        raise InvalidInput("no policy to run", remedy=f"Known: {', '.join(POLICIES)}")
    wanted = [
        (size, policy) for policy in chosen for size in (_SIZES[:2] if policy in AGENTS else _SIZES)
    ]  # fmt: skip
    for size, policy in cells(wanted, "pack-speed"):
        fleet = fleet_of([nodes[i % len(nodes)] for i in range(size)])
        order = arrival_order(pods, fleet.capacity_milli, seed, 1.0)
        if policy == "dure":
            rows.append(_ours(fleet, pods, order[:decisions], seed))
        elif policy in AGENTS:
            rows.append(_agent(policy, fleet, pods, order, seed))
        else:
            rows.append(_plain(policy, fleet, pods, order[:plain_decisions], seed))
    emit(Result("pack-speed", rows, _summary(rows)), as_json=as_json, report=report, figures=_figures(rows))


def _ours(fleet: Fleet, pods: list[TracePod], order: NDArray[np.int64], seed: int) -> dict[str, Any]:
    """The mix and the compiled kernels are warm: what is timed is deciding and taking."""
    asks = [fleet.ask(pod) for pod in pods]
    settings = WorthSettings()
    mix = Mix()
    for ask in asks:
        mix.add(ask.shape)
    grid = Grid(fleet.hosts, fleet.hardware, settings, mix, shapes=settings.shapes)
    rows = np.array([grid.row(ask) for ask in asks])
    grid.fork().run(rows[order[:64]])
    chunk = max(64, order.size // 64)
    placed, spent, worst = 0, 0.0, 0.0
    for at in range(0, order.size, chunk):
        stream = rows[order[at : at + chunk]]
        start = time.process_time()
        nodes = grid.run(stream)[0]
        took = time.process_time() - start
        placed, spent, worst = placed + int((nodes >= 0).sum()), spent + took, max(worst, took / stream.size)
    return _row("dure", fleet, seed, order.size, placed, spent, worst, grid.nbytes)


def _agent(policy: str, fleet: Fleet, pods: list[TracePod], order: NDArray[np.int64], seed: int) -> dict[str, Any]:
    """A look at the whole cluster in, decisions out, many times; the first look, which builds all, is told apart."""
    packing, most, at_once = AGENTS[policy]
    agent = AgentReplay(fleet, packing)
    arrived = [pods[i] for i in order if pods[i].devices][:most]
    made = [agent.tick(arrived[at : at + at_once]) for at in range(0, len(arrived), at_once)]
    placed = sum(bind is not None for binds in made[1:] for bind in binds)
    done = len(arrived) - len(made[0])
    row = _row(policy, fleet, seed, done, placed, agent.spent_s, agent.worst_s, 0)
    return {**row, "first_look_s": round(agent.first_s, 2)}


def _plain(policy: str, fleet: Fleet, pods: list[TracePod], order: NDArray[np.int64], seed: int) -> dict[str, Any]:
    typical, shares = rivals.typical_pods(pods, fleet)
    plain = PlainNumpy(fleet, typical, shares, policy == "numpy-fgd")
    asks = [fleet.ask(pod) for pod in pods]
    placed, done, spent, worst = 0, 0, 0.0, 0.0
    for i in order:
        if spent > _PATIENCE_S:
            break
        ask = asks[i]
        start = time.process_time()
        placed += plain.place(ask.cpu, ask.mem, ask.pieces, ask.milli, ask.types) >= 0
        took = time.process_time() - start
        done, spent, worst = done + 1, spent + took, max(worst, took)
    return _row(policy, fleet, seed, done, placed, spent, worst, plain.left.nbytes + plain.hosts.nbytes)


class PlainNumpy:
    """FGD or best fit over all nodes by array expressions; `frag` holds each node's present fragmentation."""

    def __init__(self, fleet: Fleet, typical: Any, shares: NDArray[np.float64], fgd: bool) -> None:
        self.hosts, self.left = rivals.state_of(fleet)
        self.shares, self.fgd = shares, fgd
        self.cpu, self.count, self.milli, self.types = (np.ascontiguousarray(column) for column in typical.T)
        self.scores: dict[tuple[int, ...], tuple[NDArray[np.float64], NDArray[np.int64]]] = {}
        self.version = np.zeros(len(self.hosts), np.int64)
        self.frag = self._fragments(self.hosts, self.left) if fgd else np.zeros(len(self.hosts))

    def place(self, *ask: int) -> int:
        score, fresh = self.scores.setdefault(
            ask, (np.full(len(self.hosts), -np.inf), np.full(len(self.hosts), -1, np.int64))
        )
        stale = np.flatnonzero(fresh != self.version)
        score[stale] = self._score(stale, ask)
        fresh[stale] = self.version[stale]
        n = int(np.argmax(score))
        if score[n] == -np.inf:
            return -1
        self._take(n, ask)
        return n

    def _score(self, rows: NDArray[np.int64], ask: tuple[int, ...]) -> NDArray[np.float64]:
        cpu, mem, count, milli, types = ask
        hosts, left = self.hosts[rows], self.left[rows]
        fits = (hosts[:, 0] >= cpu) & (hosts[:, 1] >= mem) & ((types >> hosts[:, 2]) & 1 == 1)
        fits &= (left >= max(1, milli)).sum(axis=1) >= count
        if not self.fgd:
            rest = 0.5 * (hosts[:, 0] - cpu) / 128_000 + 0.5 * (left.sum(axis=1) - count * milli) / 8_000
            return np.where(fits, -rest, -np.inf)
        best = np.full(rows.size, -np.inf)
        fitting = np.flatnonzero(fits)
        for at in range(0, fitting.size, _DENSE):
            part = fitting[at : at + _DENSE]
            owner, trial = self._trials(left[part], count, milli)
            after = hosts[part][owner]
            after[:, 0] -= cpu
            drop = self.frag[rows[part]][owner] - self._fragments(after, trial)
            cut = np.floor(100.0 / (1.0 + np.exp(-np.clip(drop, -20_000, 20_000) / 1000.0)))
            np.maximum.at(best, part[owner], cut)
        return best

    def _trials(self, left: NDArray[np.int64], count: int, milli: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """What would be left, one row for each way to place the ask; and whose row it is."""
        if count == 1 and milli < WHOLE:
            owner, device = np.nonzero(left >= milli)
            trial = left[owner]
            trial[np.arange(owner.size), device] -= milli
            return owner, trial
        whole = left == WHOLE
        return np.arange(len(left)), np.where(whole & (np.cumsum(whole, axis=1) <= count), 0, left)

    def _fragments(self, hosts: NDArray[np.int64], left: NDArray[np.int64]) -> NDArray[np.float64]:
        """Equation 4 of the paper for many nodes at once: [node, typical shape, device], summed over the devices."""
        short = left[:, None, :] < np.maximum(1, self.milli)[:, None]
        usable = (self.count > 0) & (hosts[:, :1] >= self.cpu) & ((self.types >> hosts[:, 2:3]) & 1 == 1)
        usable &= left.shape[1] - np.count_nonzero(short, axis=2) >= self.count
        waste = np.einsum("nkd,nd->nk", short, left)
        lost: NDArray[np.float64] = np.where(usable, waste, left.sum(axis=1)[:, None]) @ self.shares
        return lost

    def _take(self, n: int, ask: tuple[int, ...]) -> None:
        cpu, mem, count, milli, _ = ask
        rows = np.array([n])
        if count == 1 and milli < WHOLE:
            room = np.where(self.left[n] >= milli, self.left[n], 1 << 30)
            best = int(np.argmin(room))
            if self.fgd:
                _, trial = self._trials(self.left[rows], count, milli)
                after = self.hosts[[n] * len(trial)] - np.array([cpu, 0, 0, 0])
                best = int(np.flatnonzero(self.left[n] >= milli)[np.argmin(self._fragments(after, trial))])
            self.left[n, best] -= milli
        elif count:
            self.left[n, np.flatnonzero(self.left[n] == WHOLE)[:count]] = 0
        self.hosts[n, :2] -= (cpu, mem)
        self.version[n] += 1
        if self.fgd:
            self.frag[rows] = self._fragments(self.hosts[rows], self.left[rows])


def _row(
    policy: str, fleet: Fleet, seed: int, decisions: int, placed: int, spent: float, worst: float, nbytes: int
) -> dict[str, Any]:
    devices = sum(fleet.hardware.devices)
    return {
        "policy": policy,
        "nodes": len(fleet.hosts),
        "devices": devices,
        "seed": seed,
        "decisions": decisions,
        "placed": placed,
        "seconds": round(spent, 4),
        "decisions_per_s": round(decisions / max(spent, 1e-9)),
        "mean_us": round(spent / decisions * 1e6, 2),
        "worst_us": round(worst * 1e6, 1),
        "bytes_per_device": round(nbytes / devices, 1),
    }


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Of the rows that were run."""
    rate = {(row["policy"], row["nodes"]): row["decisions_per_s"] for row in rows}
    small, middle, large = _SIZES
    summary: dict[str, Any] = {}

    def times(words: str, one: tuple[str, int], other: tuple[str, int], digits: int = 1) -> None:
        if one in rate and other in rate:
            summary[words] = round(rate[one] / max(1, rate[other]), digits)

    if ("dure", small) in rate:
        summary["decisions_per_s at 1.2k nodes"] = rate["dure", small]
    times("times numpy FGD at 1.2k nodes", ("dure", small), ("numpy-fgd", small))
    times("times numpy best fit at 1.2k nodes", ("dure", small), ("numpy-bestfit", small))
    times("cost growth 1.2k to 50k nodes", ("dure", small), ("dure", large), 2)
    for name, size in (("1.2k", small), ("10k", middle)):
        if ("agent", size) in rate:
            summary[f"agent: decisions_per_s at {name} nodes"] = rate["agent", size]
        times(f"agent: times the plain packer at {name} nodes", ("agent", size), ("agent-plain", size))
    for row in rows:
        if (row["policy"], row["nodes"]) == ("dure", large):
            summary["bytes per device at 50k nodes"] = row["bytes_per_device"]
    return summary


def _figures(rows: list[dict[str, Any]]) -> list[Any]:
    from plotly import graph_objects

    figure = graph_objects.Figure()
    for policy in dict.fromkeys(row["policy"] for row in rows):
        mine = [row for row in rows if row["policy"] == policy]
        figure.add_scatter(x=[row["nodes"] for row in mine], y=[row["decisions_per_s"] for row in mine], name=policy)
    figure.update_layout(xaxis_type="log", yaxis_type="log", xaxis_title="nodes", yaxis_title="decisions per second")
    return [figure]
