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
from dure.model.pulse import Scaling
from dure.scale.scaled import Scaled, Share

if TYPE_CHECKING:
    from collections.abc import Callable

    from dure.adapters.kube.deployments import Deployments
    from dure.agent.awake import AwakeKeeper
    from dure.agent.replicas import Turned
    from dure.agent.warm import Shared, ShareKeeper
    from dure.model.pulse import Pulse


# Between two looks at a hand-over.
TEND_S = 0.1


class ServicesFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    services: dict[str, Scaled]
    namespace: str = "default"
    share: Share | None = None


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
    share = services.share
    with Api.from_kubeconfig(kubeconfig) as api:
        levers = Deployments(api, services.namespace)
        read = reader(levers)
        sharing = share.services if share is not None else ()
        alone = {name: one for name, one in services.services.items() if name not in sharing}
        keeper = ReplicaKeeper(alone, levers, read, every, click.echo)
        together = _together(services, levers, read, every)
        try:
            if not apply:
                # One look only sets the counters' beginning; the second can tell what has come since.
                keeper.turn(time.time(), apply=False)
                if together is not None:
                    together.turn(time.time(), apply=False)
                time.sleep(every)
                _show(keeper.turn(time.time(), apply=False))
                if together is not None:
                    _show_shared(
                        together.turn(time.time(), apply=False),
                        "machines" if share is not None and share.asleep else "placeholders",
                    )
                click.echo("Nothing was changed. Scale them with --apply.")
                return
            while True:
                for one in keeper.turn(time.time()):
                    if one.error:
                        click.echo(f"{one.service}: {one.error}", err=True)
                found = together.turn(time.time()) if together is not None else None
                if found is not None and found.error:
                    click.echo(f"shared machines: {found.error}", err=True)
                _rest(together, time.monotonic() + every)
        except KeyboardInterrupt:
            return


def _together(
    services: ServicesFile, levers: Deployments, read: Callable[[str, Scaled], Pulse | None], every: float
) -> ShareKeeper | AwakeKeeper | None:
    from dure.adapters.vllm import VllmEngines
    from dure.agent.awake import AwakeKeeper
    from dure.agent.warm import ShareKeeper

    share = services.share
    if share is None:
        return None
    members = {name: services.services[name] for name in share.services}
    if share.asleep:
        return AwakeKeeper(share, members, levers, VllmEngines(), read, every, click.echo)
    return ShareKeeper(share, members, levers, read, every, click.echo)


def _rest(together: ShareKeeper | AwakeKeeper | None, until_s: float) -> None:
    """Until the next turn; a hand-over does not wait for it."""
    from dure.agent.awake import AwakeKeeper

    while isinstance(together, AwakeKeeper) and time.monotonic() < until_s and together.tend(time.time()):
        time.sleep(TEND_S)
    time.sleep(max(until_s - time.monotonic(), 0.0))


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
    _check_share(found, path)
    return found


def _check_share(found: ServicesFile, path: Path) -> None:
    share = found.share
    if share is None:
        return
    for name in share.services:
        if name not in found.services:
            raise InvalidInput(f"'{name}' shares machines and is no service", where=str(path))
        if found.services[name].pool or found.services[name].scaling not in (Scaling.AUTO, Scaling.SERVING):
            raise InvalidInput(
                f"service '{name}' shares machines, so Dure's policy decides", where=str(path),
                remedy="Leave out its pool and scaling, or leave it out of share.",
            )  # fmt: skip
    least = sum(found.services[name].min for name in share.services)
    if len(set(share.services)) < 2 or len(set(share.services)) < len(share.services):
        raise InvalidInput("share needs two services or more, each once", where=str(path))
    if not 0 < share.start_s <= share.boot or share.most < least or share.placeholders in found.services:
        raise InvalidInput(
            "share needs 0 < start <= boot, most for the least of each, and placeholders that are no service",
            where=str(path),
        )
    if share.asleep and share.placeholders:
        raise InvalidInput(
            "share has asleep and placeholders", where=str(path),
            remedy="Leave out placeholders: where engines sleep, their own pods ask for nodes and keep them.",
        )  # fmt: skip
    if not share.asleep and not share.placeholders:
        raise InvalidInput(
            "share needs placeholders, the Deployment that keeps nodes", where=str(path),
            remedy="Or give asleep: true, where every node has an engine of each service.",
        )  # fmt: skip
    if share.drain is not None and (share.drain < 0 or not share.asleep):
        raise InvalidInput("drain is 0 seconds or more, and counts with asleep: true only", where=str(path))


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


def _show_shared(found: Shared | None, kept: str) -> None:
    if found is None or found.error:
        click.echo(f"shared machines: {found.error if found else 'one of the services shows nothing new'}")
        return
    for name, (before, after) in (*found.replicas.items(), (kept, found.kept)):
        click.echo(f"{name:<18}{before:>5}{after:>10}  shared")
