"""`dure front`: the serving front as a process, or its policy as manifests."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dure.files.params import KUBE_NAME, SELECTOR, URL, FiniteRange
from dure.model.errors import InvalidInput

if TYPE_CHECKING:
    from dure.adapters.kube.endpoints import Endpoints
    from dure.front.proxy import Front, FrontSettings


@click.command(name="front")
@click.option("--backend", "backends", type=URL, multiple=True, help="URL of a replica; repeat it.")
@click.option(
    "--pods", "selector", type=SELECTOR, help="Follow the pods with these labels instead: app=chat,tier=gpu."
)
@click.option(
    "--kubeconfig",
    "kubeconfigs",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Cluster of the pods; repeat it for several, else the one that kubectl would take.",
)
@click.option(
    "--pod-port", type=click.IntRange(1, 65535), default=8000, show_default=True, help="Port of the pods' servers."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=7421,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@click.option(
    "--ttft",
    type=FiniteRange(min=0, min_open=True),
    default=2.0,
    show_default=True,
    help="Promise for the first token, in seconds.",
)
@click.option(
    "--limit", type=click.IntRange(1), default=64, show_default=True, help="Requests that run at once on a backend."
)
@click.option(
    "--ahead",
    type=FiniteRange(min=0),
    default=0.5,
    show_default=True,
    help="Seconds of streamed prompts that a backend is given before their first tokens.",
)
@click.option(
    "--carry",
    type=FiniteRange(min=0),
    help="Seconds after which what runs on a backend that left goes on upon another; without it, it ends there.",
)
@click.option(
    "--path",
    "paths",
    multiple=True,
    help="Let only requests below this path pass, as /v1/; repeat it for several.",
)
@click.option(
    "--render", "service", type=KUBE_NAME, help="Print Gateway API manifests for this service instead of serving."
)
@click.option(
    "--namespace", type=KUBE_NAME, default="default", show_default=True, help="Namespace of the pods or manifests."
)
def command(
    backends: tuple[str, ...],
    selector: str | None,
    kubeconfigs: tuple[Path, ...],
    pod_port: int,
    host: str,
    port: int,
    ttft: float,
    limit: int,
    ahead: float,
    carry: float | None,
    paths: tuple[str, ...],
    service: str | None,
    namespace: str,
) -> None:
    """Route OpenAI-style requests by expected work, in an order in which the fewest are late.

    With --pods the backends are the ready pods of one or several clusters: replicas that come are used as soon as
    they are ready, and those that go get nothing new from the moment their end is decided. With --carry 2 their
    requests go on elsewhere two seconds later, and those of a backend that dies at once; clients notice a pause.

    \b
    Example:
      dure front --backend http://127.0.0.1:8001 --backend http://127.0.0.1:8002
      dure front --pods dure.dev/workload=ranker --namespace dure-search --kubeconfig a.yaml --kubeconfig b.yaml
      dure front --render chat-7b --namespace search
    """
    if service is not None:
        import yaml

        from dure.front.gateway import render

        click.echo(yaml.safe_dump_all(render(service, namespace, {"app": service}, 8000), sort_keys=False), nl=False)
        return
    if bool(backends) == bool(selector):
        raise InvalidInput(
            "backends are either named or followed",
            remedy="Add --backend http://127.0.0.1:8001 for each replica, or --pods LABELS.",
        )
    if kubeconfigs and not selector:
        raise InvalidInput("--kubeconfig goes with --pods")
    if not all(each.startswith("/") and each.isascii() for each in paths):
        raise InvalidInput("--path begins with /", remedy="Give --path /v1/ for an OpenAI-style service.")
    from dure.front.proxy import FrontSettings

    settings = FrontSettings(ttft_s=ttft, limit=limit, ahead_s=ahead, paths=paths, carry_s=carry)
    followed = (selector, namespace, pod_port, kubeconfigs) if selector else None
    asyncio.run(_serve(list(backends), followed, host, port, settings))


async def _serve(
    urls: list[str],
    followed: tuple[str, str, int, tuple[Path, ...]] | None,
    host: str,
    port: int,
    settings: FrontSettings,
) -> None:
    from dure.front.proxy import Front

    front = Front(urls, settings)
    endpoints = await _follow(front, *followed) if followed else []
    bound = await front.start(host, port)
    click.echo(f"Front on http://{host}:{bound} for {len(front.backends)} backends; state at /-/front")
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await stopped.wait()
    await front.stop()
    for each in endpoints:
        each.stop()


async def _follow(
    front: Front, selector: str, namespace: str, port: int, kubeconfigs: tuple[Path, ...]
) -> list[Endpoints]:
    """Start to follow the pods of every cluster; the front has those of now when this returns."""
    from dure.adapters.kube.endpoints import Endpoints, urls
    from dure.adapters.kube.rest import Api, default_kubeconfig

    loop = asyncio.get_running_loop()
    found: list[Endpoints] = []

    def look() -> None:
        front.follow(urls(found))

    def changed() -> None:
        loop.call_soon_threadsafe(look)

    for path in kubeconfigs or (default_kubeconfig(),):
        api = Api.from_kubeconfig(path)
        found.append(Endpoints(api, namespace, selector, port, changed))
    for each in found:
        await asyncio.to_thread(each.start)
    look()
    return found
