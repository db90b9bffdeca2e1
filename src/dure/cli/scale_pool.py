"""`dure scale pool`: Deployments of a real cluster that share devices, planned and on demand kept so."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from dure.files.params import FiniteRange
from dure.files.plain import read_as
from dure.model.elastic import ElasticGroup
from dure.model.errors import InvalidInput
from dure.model.workload import Replicas

if TYPE_CHECKING:
    from dure.agent.pools import PoolKeeper


class Member(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One Deployment: its own part, its bounds, and who goes first."""

    primary: int
    min: int = 1
    max: int = 100
    priority: int = 0

    @property
    def replicas(self) -> Replicas:
        return Replicas(self.min, self.max)


class PoolFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    services: dict[str, Member]
    elastic: int
    namespace: str = "default"
    give_back: int = 1
    calm: int = 3

    @property
    def group(self) -> ElasticGroup:
        primary = {name: member.primary for name, member in self.services.items()}
        return ElasticGroup(self.name, primary, self.elastic, self.give_back, self.calm)


@click.command(name="pool")
@click.option("-f", "file", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True,
              help="Who shares: name, namespace, elastic, services.")  # fmt: skip
@click.option("--kubeconfig", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True)
@click.option("--want", multiple=True, metavar="SERVICE=REPLICAS", help="Instead of the Deployment's annotation.")
@click.option("--apply", is_flag=True, help="Carry the plan out, and go on keeping the group until Ctrl-C.")
@click.option("--once", is_flag=True, help="With --apply: end when nothing is left to do.")
@click.option("--every", type=FiniteRange(0.1, 600), default=5.0, show_default=True, help="Seconds between looks.")
def command(file: Path, kubeconfig: Path, want: tuple[str, ...], apply: bool, once: bool, every: float) -> None:
    """Divide devices between Deployments: own parts, an elastic share, priorities.

    What a service wants is read from the annotation dure.dev/wanted-replicas of its Deployment, or given with --want.
    A surge takes the free elastic share first, then what others hold idle, never below their minimum. Without
    --apply nothing is changed. The plan under way is kept in a ConfigMap, so an interrupted one is gone on with.

    \b
    Example:
      dure scale pool -f pool.yaml --kubeconfig ~/.kube/config --want model-a=7
      dure scale pool -f pool.yaml --kubeconfig ~/.kube/config --apply
    """
    from dure.adapters.kube.deployments import Deployments
    from dure.adapters.kube.rest import Api
    from dure.agent.pools import PoolKeeper

    pool, given = read_pool(file), _given(want)
    if unknown := sorted(given.keys() - pool.services.keys()):
        raise InvalidInput(f"no service '{unknown[0]}' in the pool", remedy=f"It has {', '.join(pool.services)}.")
    with Api.from_kubeconfig(kubeconfig) as api:
        levers = Deployments(api, pool.namespace)
        keeper = PoolKeeper(
            pool.group, pool.services, levers, lambda name: given.get(name, levers.fetch_wanted(name)), click.echo
        )
        if not apply:
            _show(keeper)
            return
        try:
            while keeper.turn(time.time()) is not None or not once:
                time.sleep(every)
        except KeyboardInterrupt:
            return


def read_pool(path: Path) -> PoolFile:
    remedy = "Give name, elastic and services, each with primary, min, max and priority."
    return read_as(path, PoolFile, "a pool", remedy)


def _given(want: tuple[str, ...]) -> dict[str, int]:
    found = {}
    for text in want:
        name, _, count = text.partition("=")
        if not count.isdigit():
            raise InvalidInput(f"'{text}' is no wish", remedy="Write SERVICE=REPLICAS, for example model-a=7.")
        found[name] = int(count)
    return found


def _show(keeper: PoolKeeper) -> None:
    from dure.scale.pools import reallocation

    found = keeper.divide()
    click.echo("service            runs   may run   elastic  why")
    for share in found:
        click.echo(f"{share.service:<18}{share.before:>5}{share.after:>10}{share.from_elastic:>10}  {share.reason}")
    for step in reallocation(tuple(share for share in found if share.after != share.before)):
        click.echo(f"  {step.number}. {step.phase} {step.service} ({step.replicas}); undone by: {step.undo}")
    click.echo("Nothing was changed. Carry it out with --apply.")
