"""`dure defrag`: which moves would bring free devices together, and on demand make them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from dure.cli.client import Client
from dure.cli.output import moment, output_options, print_data, print_table, span
from dure.cli.state import state_option
from dure.files.params import FiniteRange
from dure.model.defrag import DefragState, How

POLL_S = 0.25
# What a plan's word for a move means for whoever owns the pod.
_HOW = {
    How.WARM_FIRST: "its other replicas answer meanwhile",
    How.AT_CHECKPOINT: "just after its checkpoint",
    How.RESTART: "starts again there",
}
_STATES = {
    DefragState.ASKED: "no answer yet",
    DefragState.NOTHING: "nothing to do",
    DefragState.PLANNED: "planned, nothing moved",
    DefragState.WAITING: "waiting for a checkpoint",
    DefragState.MOVED: "moved",
    DefragState.DROPPED: "dropped, nothing moved",
}


@click.command()
@click.option("--cluster", metavar="NAME", help="Only this cluster.")
@click.option("--apply", is_flag=True, help="Have the plans carried out, after each was checked once more.")
@click.option(
    "--wait", type=FiniteRange(0, 600), default=20.0, show_default=True, help="Seconds to wait for the agents."
)
@output_options
@state_option
def command(cluster: str | None, apply: bool, wait: float, output: str, state: Path) -> None:
    """Show the cheapest moves that make room in each cluster: what each would free, whom it moves, what it costs.

    Room is made for the widest workload that waits because free devices do not lie together; where none does, the
    plan empties a node. Nothing is moved without --apply. With it the agent looks a second time and moves only if
    the whole plan still holds; training moves just after a checkpoint, so that may take a while.

    \b
    Example:
      dure defrag
      dure defrag --cluster seoul-onprem --apply
      dure defrag --json
    """
    client = Client(state)
    query = "&".join(
        part for part in (f"cluster={cluster}" if cluster else "", "apply=true" if apply else "") if part
    )
    asked = client.send("POST", f"/v1/defrag?{query}")["items"]
    found = _settled(client, cluster, {one["wish"] for one in asked}, time.monotonic() + wait)
    if output in ("json", "yaml"):
        print_data({"clusters": found}, output)
        return
    for one in found:
        _show(one, wide=output == "wide")
    if not apply and any(one["state"] == DefragState.PLANNED for one in found):
        click.echo("Nothing was moved. Carry it out with: dure defrag --apply")
    if any(not _settled_one(one) for one in found):
        click.echo("Not all agents are done; ask again with: dure defrag", err=True)


def _settled(client: Client, cluster: str | None, wishes: set[str], until: float) -> list[dict[str, Any]]:
    """The answers to these wishes, once all are there or time is up."""
    while True:
        answers: list[dict[str, Any]] = client.get("/v1/defrag", cluster=cluster)["items"]
        found = [one for one in answers if one["wish"] in wishes]
        if all(_settled_one(one) for one in found) or time.monotonic() >= until:
            return found
        time.sleep(POLL_S)


def _settled_one(one: dict[str, Any]) -> bool:
    if one["state"] == DefragState.PLANNED:
        return not one.get("apply", False)
    return one["state"] not in (DefragState.ASKED, DefragState.WAITING)


def _show(one: dict[str, Any], *, wide: bool) -> None:
    click.echo(f"{one['cluster']}: {_STATES[DefragState(one['state'])]}")
    if one.get("note"):
        click.echo(f"  {one['note']}")
    plan = one.get("plan")
    if not plan:
        return
    moves = "1 move" if len(plan["moves"]) == 1 else f"{len(plan['moves'])} moves"
    click.echo(f"  frees {plan['goal']} on {plan['node']}; costs {moves}, {span(plan['cost_s'])} of a device's work")
    rows = [
        [
            "",
            move["pod"],
            move["tenant"],
            move["from_node"],
            move["to_node"],
            span(move["lost_s"]),
            _HOW[How(move["how"])],
        ]
        for move in plan["moves"]
    ]
    print_table(["", "POD", "TENANT", "FROM", "TO", "LOST", "HOW"], rows)
    if wide:
        click.echo(f"  wish {one['wish']}, answered {moment(one['at_s'])}, cluster version {plan['version']}")
