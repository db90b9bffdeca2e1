"""`dure scale replicas`: Deployments of a real cluster at the number of replicas that their traffic asks for."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from dure.files.params import FiniteRange
from dure.files.plain import read_as
from dure.model.errors import InvalidInput
from dure.scale.scaled import Scaled

if TYPE_CHECKING:
    from collections.abc import Callable

    from dure.adapters.kube.deployments import Deployments
    from dure.agent.replicas import Turned
    from dure.model.pulse import Pulse


class ServicesFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    services: dict[str, Scaled]
    namespace: str = "default"


@click.command(name="replicas")
@click.option("-f", "file", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True,
              help="Which Deployments: namespace, services.")  # fmt: skip
@click.option("--kubeconfig", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True)
@click.option("--apply", is_flag=True, help="Scale them, until Ctrl-C; else show once what would be asked for.")
@click.option("--every", type=FiniteRange(0.1, 600), default=15.0, show_default=True, help="Seconds between looks.")
def command(file: Path, kubeconfig: Path, apply: bool, every: float) -> None:
    """Scale Deployments by Dure's policy, on what their engines show (vLLM, TGI, SGLang) or the front before them.

    While that is missing or old HPA's rules go on and it is said so. Do not give the same Deployment a
    HorizontalPodAutoscaler: the two would undo each other. Without --apply nothing is changed.

    \b
    Example:
      dure scale replicas -f services.yaml --kubeconfig ~/.kube/config
      dure scale replicas -f services.yaml --kubeconfig ~/.kube/config --apply
    """
    from dure.adapters.kube.deployments import Deployments
    from dure.adapters.kube.rest import Api
    from dure.agent.replicas import ReplicaKeeper

    services = read_services(file)
    with Api.from_kubeconfig(kubeconfig) as api:
        levers = Deployments(api, services.namespace)
        keeper = ReplicaKeeper(services.services, levers, reader(levers), every, click.echo)
        try:
            if not apply:
                # One look only sets the counters' beginning; the second can tell what has come since.
                keeper.turn(time.time(), apply=False)
                time.sleep(every)
                _show(keeper.turn(time.time(), apply=False))
                return
            while True:
                for one in keeper.turn(time.time()):
                    if one.error:
                        click.echo(f"{one.service}: {one.error}", err=True)
                time.sleep(every)
        except KeyboardInterrupt:
            return


def read_services(path: Path) -> ServicesFile:
    found = read_as(
        path, ServicesFile, "services", "Give namespace and services, each with min, max, boot, carries or weights."
    )
    for name, one in found.services.items():
        if one.carries is not None and one.weights is not None:
            raise InvalidInput(f"service '{name}' has carries and weights; give one of them", where=str(path))
        if not 0 < one.min <= one.max or one.boot <= 0 or (one.carries is not None and one.carries <= 0):
            raise InvalidInput(
                f"service '{name}' needs 1 <= min <= max, and boot and carries above 0", where=str(path)
            )
    return found


def reader(levers: Deployments) -> Callable[[str, Scaled], Pulse | None]:
    """Reads a service's pulse from the front before it, else from its pods."""
    from dure.adapters.kube.exposition import samples_of
    from dure.adapters.kube.pulse import PulseBook, shown
    from dure.adapters.kube.reading import fetch_or_nothing
    from dure.front.pulse import pulse_of

    books: dict[str, PulseBook] = {}

    def read(name: str, service: Scaled) -> Pulse | None:
        if service.front:
            return pulse_of(fetch_or_nothing(f"{service.front.rstrip('/')}/-/front"), time.time())
        texts = levers.fetch_shown(name, fetch_or_nothing)
        engines = {uid: found for uid, text in texts.items() if (found := shown(samples_of(text))) is not None}
        book = books.setdefault(name, PulseBook())
        pulse = book.add(engines, time.time())
        book.forget(set(texts))
        return pulse

    return read


def _show(found: tuple[Turned, ...]) -> None:
    click.echo("service            runs    wanted  by        why")
    for one in found:
        if one.verdict is None:
            click.echo(
                f"{one.service:<18}{one.replicas:>5}{'':>10}  {'':<10}{one.error or 'nothing new was counted'}"
            )
            continue
        verdict = one.verdict
        click.echo(f"{one.service:<18}{one.replicas:>5}{verdict.replicas:>10}  {verdict.by:<10}{verdict.why}")
    click.echo("Nothing was changed. Scale them with --apply.")
