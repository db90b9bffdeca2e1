"""`dure scale nodes`: which machines to start and to stop for a real cluster's pods, and on demand doing it."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from dure.files.params import FiniteRange
from dure.files.plain import read_as
from dure.model.errors import InvalidInput, Temporary
from dure.model.quantity import mib, milli
from dure.scale.nodes.budget import Budget, Reason, check
from dure.scale.nodes.state import Offer, Pool

if TYPE_CHECKING:
    from dure.agent.nodes import NodeKeeper, PoolRules


class BudgetPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many nodes may go at once: a number or a percentage, always or for hours after each firing."""

    nodes: str = "10%"
    reasons: tuple[Reason, ...] = ()
    schedule: str = ""
    hours: float = 0.0
    timezone: str = "UTC"


class HoursPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """At most `nodes` nodes for `hours` after each firing of `schedule`."""

    schedule: str
    hours: float
    nodes: int = 0
    timezone: str = "UTC"


class PoolPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node pool: types of the built-in table, how cheap spot is, what daemons take of each node."""

    name: str
    types: tuple[str, ...]
    zones: tuple[str, ...] = ("",)
    spot: float | None = None
    reclaims: float = 0.0
    weight: int = 0
    max_nodes: int | None = None
    overhead: dict[str, str] = {}
    budgets: tuple[BudgetPart, ...] = ()
    expire_hours: float = math.inf
    template: str = ""
    off_hours: tuple[HoursPart, ...] = ()


class NodesFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pools: tuple[PoolPart, ...]


@click.command(name="nodes")
@click.option("-f", "file", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True,
              help="The node pools; docs/scale.md has every key.")  # fmt: skip
@click.option("--kubeconfig", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True)
@click.option("--via", type=click.Choice(["karpenter", "kwok"]), default="karpenter", show_default=True,
              help="How machines are asked for: NodeClaims, or KWOK's fake nodes.")  # fmt: skip
@click.option("--apply", is_flag=True, help="Do it, and go on until Ctrl-C.")
@click.option("--once", is_flag=True, help="With --apply: end when nothing is left to do.")
@click.option("--every", type=FiniteRange(0.1, 600), default=5.0, show_default=True, help="Seconds between looks.")
def command(file: Path, kubeconfig: Path, via: str, apply: bool, once: bool, every: float) -> None:
    """Machines for pods that wait, and fewer or cheaper ones for those that run.

    Pods that wait get the cheapest machines that hold them (price, expected rework on spot, daemons, limits).
    Nodes that are empty, or whose pods fit elsewhere or on something cheaper, are emptied through the eviction API
    and ended. A node with the annotation dure.dev/reclaim-at (the second at which the cloud takes it) is cordoned,
    its replacement starts at once, and its pods leave by how long they need. Nodes that are older than expire_hours
    or carry another dure.dev/template than the pool are replaced one by one; off_hours say how many nodes a pool may
    have at which hours. Without --apply nothing is changed.

    \b
    Example:
      dure scale nodes -f nodes.yaml --kubeconfig ~/.kube/config
      dure scale nodes -f nodes.yaml --kubeconfig ~/.kube/config --apply
    """
    from dure.adapters.kube.machines import Machines
    from dure.adapters.kube.rest import Api
    from dure.agent.nodes import NodeKeeper

    pools, rules = read_pools(file), read_rules(file)
    offers = [offer for pool in pools for offer in pool.offers]
    templates = {pool: one.template for pool, one in rules.items()}
    with Api.from_kubeconfig(kubeconfig) as api:
        machines = Machines(api, offers, "kwok" if via == "kwok" else "karpenter", templates)
        keeper = NodeKeeper(machines, pools, rules=rules, tell=click.echo)
        if apply:
            try:
                while _turned(keeper) or not once:
                    time.sleep(every)
            except KeyboardInterrupt:
                return
            return
        found = keeper.look(time.time())
    for new in found.provision.bought.nodes:
        price = new.offer.price / 1e6
        click.echo(f"start {new.offer.type_name} ({new.offer.capacity}, {price:.2f} USD/h) for {len(new.pods)} pods")
    for one in found.provision.bought.unplaced:
        click.echo(f"nothing holds {one.pod}: {one.detail}")
    for new in found.consolidation.start:
        click.echo(f"start {new.offer.type_name} ({new.offer.capacity}) instead of dearer ones")
    for name, reason in found.consolidation.stop:
        click.echo(f"stop  {name}: {reason}")
    for ending in found.endings:
        click.echo(f"stop  {ending.node}: {ending.reason}, {ending.detail}")
    click.echo(f"It would save {found.consolidation.saving / 1e6:.2f} USD/h. Nothing was changed.")


def _turned(keeper: NodeKeeper) -> bool:
    """One turn; an API server that does not answer now is asked again at the next."""
    try:
        return keeper.turn(time.time())
    except Temporary as error:
        click.echo(f"{error}; trying again", err=True)
        return True


def read_pools(path: Path) -> tuple[Pool, ...]:
    return tuple(_pool(part, str(path)) for part in _read(path).pools)


def read_rules(path: Path) -> dict[str, PoolRules]:
    """Budgets, expiry, template and schedules by pool; what could never be understood is refused."""
    from dure.agent.nodes import PoolRules
    from dure.scale.nodes.lifecycle import Schedule

    found = {}
    for part in _read(path).pools:
        budgets = tuple(
            Budget(one.nodes, one.reasons, one.schedule, one.hours * 3600.0, one.timezone) for one in part.budgets
        )
        for budget in budgets:
            check(budget, str(path))
        for one in part.off_hours:
            # The same rules as for a budget's hours, and never fewer than none.
            check(Budget("0", (), one.schedule, one.hours * 3600.0, one.timezone), str(path))
            if one.nodes < 0 or not one.schedule:
                raise InvalidInput("off_hours need a schedule, and nodes of 0 or more", where=str(path))
        schedules = tuple(
            Schedule(one.schedule, one.hours * 3600.0, one.nodes, one.timezone) for one in part.off_hours
        )
        found[part.name] = PoolRules(budgets, part.expire_hours * 3600.0, part.template, schedules)
    return found


def _read(path: Path) -> NodesFile:
    return read_as(path, NodesFile, "node pools", "Give pools, each with a name and types.")


def _pool(part: PoolPart, where: str) -> Pool:
    from dure.files.builtin import instances

    known = {one.name: one for one in instances()}
    offers = []
    for name in part.types:
        if name not in known:
            raise InvalidInput(
                f"no instance type '{name}'", where=where, remedy=f"Known: {', '.join(sorted(known))}."
            )
        one = known[name]
        size = (one.devices * 1000, one.vcpus * 1000, int(one.memory_gib * 1024))
        for zone in part.zones:
            offers.append(Offer(name, one.class_name, size, one.usd_micros_per_h, "on-demand", zone))
            if part.spot is not None:
                price = int(one.usd_micros_per_h * part.spot)
                offers.append(Offer(name, one.class_name, size, price, "spot", zone, part.reclaims))
    overhead = (0, milli(part.overhead.get("cpu", "0")), mib(part.overhead.get("memory", "0")))
    return Pool(part.name, tuple(offers), part.weight, overhead, max_nodes=part.max_nodes)
