"""`dure front`: the serving front as a process, or its policy as manifests."""

from __future__ import annotations

import asyncio
import signal

import click

from dure.files.params import KUBE_NAME, URL, FiniteRange
from dure.model.errors import InvalidInput


@click.command(name="front")
@click.option("--backend", "backends", type=URL, multiple=True, help="URL of a replica; repeat it.")
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
    "--render", "service", type=KUBE_NAME, help="Print Gateway API manifests for this service instead of serving."
)
@click.option("--namespace", type=KUBE_NAME, default="default", show_default=True, help="Namespace of the manifests.")
def command(
    backends: tuple[str, ...],
    host: str,
    port: int,
    ttft: float,
    limit: int,
    service: str | None,
    namespace: str,
) -> None:
    """Route OpenAI-style requests by expected work, and let requests that can still be on time go first.

    \b
    Example:
      dure front --backend http://127.0.0.1:8001 --backend http://127.0.0.1:8002
      dure front --render chat-7b --namespace search
    """
    if service is not None:
        import yaml

        from dure.front.gateway import render

        click.echo(yaml.safe_dump_all(render(service, namespace, {"app": service}, 8000), sort_keys=False), nl=False)
        return
    if not backends:
        raise InvalidInput("no backend given", remedy="Add --backend http://127.0.0.1:8001 for each replica.")
    asyncio.run(_serve(list(backends), host, port, ttft, limit))


async def _serve(urls: list[str], host: str, port: int, ttft: float, limit: int) -> None:
    from dure.front.proxy import Front, FrontSettings

    front = Front(urls, FrontSettings(ttft_s=ttft, limit=limit))
    bound = await front.start(host, port)
    click.echo(f"Front on http://{host}:{bound} for {len(urls)} backends; state at /-/front")
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await stopped.wait()
    await front.stop()
