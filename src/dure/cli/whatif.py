"""`dure whatif`: what the same workloads would have come to in a changed world."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dure.cli.output import kilograms, money, output_options, print_data, print_table, share, span
from dure.cli.state import state_option
from dure.files.params import SEED

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option("--set", "settings", multiple=True, help="CLUSTER.price=1.2x, CLUSTER.price=900, CLUSTER.pue=1.1")
@click.option("--remove-cluster", "removed", multiple=True, help="The fleet without this cluster.")
@click.option("--policy", help="Placement by this policy, or method: regret, ruin, exact, rolling.")
@click.option("--since", default="24h", show_default=True, help="How far back: 24h, 7d.")
@click.option("--fleet", "fleet_file", type=_FILE, help="Fleet file; the demo's fleet without it.")
@click.option("--demo", is_flag=True, help="The demo's stream instead of the workloads of a running Dure.")
@click.option("--seed", type=SEED, default=1, show_default=True)
@output_options
@state_option
def command(
    settings: tuple[str, ...], removed: tuple[str, ...], policy: str | None, since: str, fleet_file: Path | None,
    demo: bool, seed: int, output: str, state: Path,
) -> None:  # fmt: skip
    """Replay what was submitted with a change; cost, CO2, SLA and waiting side by side. Nothing is touched.

    Replayed are the workloads a running Dure has recorded since then, at the hours they were submitted and under the
    policies that are in force there, with the tenants, quotas and budgets of the fleet file, through the same agents
    and placement in virtual time, once as it is and once changed. Node failures and spot reclaims are drawn anew from
    the seed, the same in both worlds.

    \b
    Example:
      dure whatif --set cloud-us.price=1.5x --since 24h
      dure whatif --remove-cluster gwangju-npu --demo --since 6h
      dure whatif --policy greener --since 7d
    """
    from dure.cli.fleet_file import fleet_and_catalogue
    from dure.embedded.week import START_S, Run
    from dure.embedded.whatif import changed, compared, placing_by, without
    from dure.model.errors import InvalidInput

    if not settings and not removed and policy is None:
        raise InvalidInput("nothing to change", remedy="Give --set, --remove-cluster or --policy; see --help.")
    fleet, catalogue = fleet_and_catalogue(fleet_file)
    hours = _hours(since)
    if demo:
        start_s, coming = START_S, _demo(fleet, catalogue, seed, hours)
    else:
        fleet, start_s, coming = _recorded(state, fleet, hours)
    other = fleet
    for text in settings:
        other = changed(other, text)
    for name in removed:
        other = without(other, name)
    if policy is not None:
        other = placing_by(other, policy)
    run = Run(fleet, catalogue, coming, days=hours / 24, seed=seed, start_s=start_s)
    _show(compared(run, other), output)


def _hours(text: str) -> float:
    from dure.model.errors import InvalidInput

    units = {"h": 1.0, "d": 24.0}
    try:
        hours = float(text[:-1]) * units[text[-1:]]
    except (KeyError, ValueError) as error:
        raise InvalidInput(f"'{text}' is not a length of time", remedy="Write 24h or 7d.") from error
    if not 0 < hours <= 24 * 366:
        raise InvalidInput(f"'{text}' is not between 0 and a year", remedy="Write 24h or 7d.")
    return hours


def _demo(fleet: Any, catalogue: Any, seed: int, hours: float) -> Any:
    from dure.adapters.memory.stream import arrivals, standing
    from dure.embedded.week import START_S

    served = [(START_S, workload) for workload in standing(fleet, catalogue)]
    return [*served, *arrivals(fleet, catalogue, seed, START_S, START_S + hours * 3600)]


def _recorded(state: Path, fleet: Any, hours: float) -> tuple[Any, float, Any]:
    """The fleet under the policies in force, when the stretch began, and what was submitted since."""
    import msgspec

    from dure.cli.client import Client
    from dure.embedded.whatif import replayed
    from dure.model.policy import Policy
    from dure.model.workload import WorkloadRecord

    client = Client(state)
    start_s = float(client.get("/v1/status")["now_s"]) - hours * 3600
    records = msgspec.convert(client.items("/v1/workloads"), list[WorkloadRecord])
    policies = msgspec.convert(client.items("/v1/policies"), tuple[Policy, ...])
    return msgspec.structs.replace(fleet, policies=policies), start_s, replayed(records, start_s)


def _show(pair: Any, output: str) -> None:
    import msgspec

    if output in ("json", "yaml"):
        print_data(msgspec.to_builtins(pair), output)
        return
    before, after = pair.before, pair.after
    rows = [
        [f"cost, {before.currency}", money(before.cost_micros), money(after.cost_micros)],
        ["CO2", kilograms(before.carbon_kg * 1000), kilograms(after.carbon_kg * 1000)],
        ["deadlines met", share(before.deadlines_met), share(after.deadlines_met)],
        ["requests in time", share(before.slo_attainment), share(after.slo_attainment)],
        ["waited, mean", span(before.wait_mean_s), span(after.wait_mean_s)],
        ["waited, 95th", span(before.wait_p95_s), span(after.wait_p95_s)],
        ["done", str(before.done), str(after.done)],
        ["still waiting", str(before.waiting), str(after.waiting)],
    ]
    print_table(["", "AS IT IS", "CHANGED"], rows)
