"""`dure demo`: things to see in the embedded fleet of a running Dure."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from dure.cli.client import Client
from dure.cli.output import moment
from dure.cli.state import state_option
from dure.files.params import SEED, FiniteRange

POLL_S = 0.5
SHOWN = ("Reallocated", "Scaled", "Running", "Placed")


@click.group(name="demo")
def command() -> None:
    """Things to see in the embedded fleet.

    \b
    Example:
      dure demo surge model-a
    """


@command.command(name="surge")
@click.argument("service", default="model-a")
@click.option("--beside", default="model-b", show_default=True, help="The service it shares devices with.")
@click.option("--factor", type=FiniteRange(1, 20), default=5.6, show_default=True, help="Times its mean rate.")
@click.option("--minutes", type=FiniteRange(5, 600), default=30.0, show_default=True, help="How long it lasts.")
@click.option("--follow/--no-follow", default=True, help="Print what happens until everything is given back.")
@state_option
def surge_command(service: str, beside: str, factor: float, minutes: float, follow: bool, state: Path) -> None:
    """Let one service surge and see where its replicas come from.

    Two services share devices: SERVICE has three of its own, the other four, and two are elastic. First the other
    one is busy and grows. When it is calm again, SERVICE surges: it takes the free elastic share first, then what the
    other holds idle, never below the other's minimum of two. Afterwards everything is given back in steps. Each
    change is one plan of drain, move, warm and switch, undone as a whole when a step fails; see it in the dashboard
    or with `dure get decisions`. Minutes are minutes of the fleet's clock.

    \b
    Example:
      dure demo surge model-a
      dure demo surge model-a --factor 3 --minutes 20 --no-follow
    """
    from dure.embedded.demo import surge_of, write

    client = Client(state)
    client.get("/v1/status")
    events = client.items("/v1/events", newest="true", limit=1)
    last = max((int(event["seq"]) for event in events), default=0)
    write(state, surge_of(service, beside, factor, minutes * 60.0))
    click.echo(f"{service} and {beside} share 9 devices: 3 and 4 of their own, 2 elastic. The script begins.")
    if follow:
        _follow(client, (service, beside), last)


def _follow(client: Client, services: tuple[str, str], last: int) -> None:
    """Until the one that surged has grown beyond its own part and come back to it, or Ctrl-C."""
    grown = False
    try:
        while True:
            fresh = [event for event in client.items("/v1/events", newest="true", limit=200) if event["seq"] > last]
            for event in fresh:
                last = max(last, int(event["seq"]))
                if event.get("workload") in services and event["kind"] in SHOWN:
                    click.echo(f"{moment(event['at_s'])}  {event['kind']:<12} {event['message']}")
            surging, beside = (_replicas(client, name) for name in services)
            grown = grown or surging > 3
            if grown and surging <= 3 and beside <= 4:
                click.echo("Everybody is back to what is their own.")
                return
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        return


def _replicas(client: Client, name: str) -> int:
    found: list[dict[str, Any]] = [
        one for one in client.items("/v1/workloads", ended="false", limit=1000) if one["spec"]["name"] == name
    ]
    home = found[0]["status"].get("placement") if found else None
    return int(home.get("replicas", 1)) if home else 0


@command.command(name="front")
@click.option("--requests", type=click.IntRange(1, 2000), default=160, show_default=True)
@click.option("--rate", type=FiniteRange(0.1, 500), default=50.0, show_default=True, help="Requests a second.")
@click.option("--engines", type=click.IntRange(1, 16), default=4, show_default=True)
@click.option("--seed", type=SEED, default=1, show_default=True)
def front_command(requests: int, rate: float, engines: int, seed: int) -> None:
    """The same burst of requests with and without the serving front.

    A few modelled engines run on this machine, each answering one request after the other; a tenth of the prompts
    are very long. First every request goes to the next engine in turn, then all go through `dure front`, which
    sends each to the engine with the least work and lets those that can still be on time go first.

    \b
    Example:
      dure demo front
      dure demo front --rate 70 --engines 6
    """
    import asyncio

    from dure.embedded.engines import Crowd, show

    in_turn, through = asyncio.run(show(Crowd(requests, rate, engines, seed=seed)))
    click.echo(f"{'':<12}{'median':>9}{'p95':>9}{'late':>7}   (promise {in_turn.promise_s:g} s)")
    for name, found in (("in turn", in_turn), ("dure front", through)):
        waits = found.waits_s
        middle, high = waits[len(waits) // 2], waits[min(len(waits) - 1, int(0.95 * len(waits)))]
        click.echo(f"{name:<12}{middle:>7.2f} s{high:>7.2f} s{found.late / len(waits):>7.0%}")
