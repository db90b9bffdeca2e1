"""`dure scale`: tune an autoscaler on recorded traffic, look at signals, ask what a budget allows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from dure.cli.scale_nodes import command as nodes_command
from dure.cli.scale_pool import command as pool_command
from dure.cli.scale_replicas import command as replicas_command
from dure.files.params import KUBE_NAME, MIG_PROFILE, FiniteRange
from dure.model.errors import InvalidInput

if TYPE_CHECKING:
    from dure.sim.serving.service import Requests
    from dure.sim.serving.tune import Advice


@click.group(name="scale")
def command() -> None:
    """Tune autoscalers on recorded traffic, and see which signal fits which service.

    \b
    Example:
      dure scale tune --recording chat.csv --boot 90
    """


command.add_command(pool_command)
command.add_command(nodes_command)
command.add_command(replicas_command)


@command.command(name="tune")
@click.option("--recording", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True,
              help="CSV (or .csv.gz) with columns seconds, prompt_tokens, output_tokens.")  # fmt: skip
@click.option(
    "--boot",
    type=FiniteRange(min=0),
    default=150.0,
    show_default=True,
    help="Seconds from asking for a replica to serving.",
)
@click.option(
    "--allowed", type=FiniteRange(0, 1), default=0.01, show_default=True, help="Share of requests that may miss."
)
@click.option(
    "--ttft",
    type=FiniteRange(min=0, min_open=True),
    default=2.0,
    show_default=True,
    help="Promise for the first token, seconds.",
)
@click.option(
    "--tpot",
    type=FiniteRange(min=0, min_open=True),
    default=0.1,
    show_default=True,
    help="Promise for each further token, seconds.",
)
@click.option("--most", type=click.IntRange(1), default=48, show_default=True, help="Most replicas.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Write an HTML page with the curves.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def tune_command(
    recording: Path,
    boot: float,
    allowed: float,
    ttft: float,
    tpot: float,
    most: int,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Follow the tuning guide on a recording: cautious start, ranked signals, proposal verified in simulation.

    \b
    Example:
      dure scale tune --recording chat.csv --boot 90 --plot tuning.html
    """
    from dure.sim.serving.service import Engine, Promise
    from dure.sim.serving.tune import tune

    advice = tune(_read(recording), boot, allowed, Engine(), Promise(ttft, tpot), most)
    if plot is not None:
        _plot(plot, advice)
        click.echo(f"Plot written to {plot}", err=True)
    if as_json:
        click.echo(msgspec.json.encode(advice).decode())
        return
    click.echo("signal            follows load  headroom  verdict")
    for fit in advice.fits:
        click.echo(f"{fit.signal:<16} {fit.follows:>13.2f} {fit.headroom:>9.2f}  {fit.verdict}")
    click.echo("\npolicy  signal        setting    misses  GPU-hours")
    for trial in advice.trials:
        mark = "*" if trial == advice.proposal else " "
        click.echo(
            f"{mark} {trial.policy:<6}{trial.signal:<12} {trial.setting:>8g} {trial.miss_rate:>9.2%} "
            f"{trial.gpu_hours:>10.1f}"
        )
    work = advice.work
    tokens = f"prompt: {work.prefill_s:.3g}, output: {work.decode_s:.3g}, request: {work.request_s:.3g}"
    click.echo(f"\nWhat a request takes of a replica, for `dure scale replicas`: weights: {{{tokens}}}")
    if advice.proposal is None:
        click.echo(f"\nNo setting stays within {allowed:.1%} misses. Allow more, boot faster, or raise --most.")
    else:
        change = advice.proposal.gpu_hours / max(advice.start.gpu_hours, 1e-9) - 1.0
        cost = f"{abs(change):.0%} {'more' if change > 0 else 'fewer'} GPU-hours than the cautious start"
        click.echo(f"\n* proposed: {cost} (which missed {advice.start.miss_rate:.1%}), within {allowed:.1%} misses.")


@command.command(name="signals")
@click.option("--namespace", type=KUBE_NAME, default="default", show_default=True)
@click.option("--deployment", type=KUBE_NAME, default="model-a", show_default=True)
@click.option(
    "--mig-profile", type=MIG_PROFILE, default="", help="Only slices of this MIG profile, for example 3g.20gb."
)
def signals_command(namespace: str, deployment: str, mig_profile: str) -> None:
    """The known signals with a query that is right for an autoscaler.

    \b
    Example:
      dure scale signals --namespace search --deployment chat-7b
    """
    from dure.scale.signals import SIGNALS, query

    for name, signal in SIGNALS.items():
        use = "scale on it" if signal.scales else "watch only"
        click.echo(f"{name:<18}{signal.unit:<11}{use:<13}{query(signal, namespace, deployment, mig_profile)}")


def _read(path: Path) -> Requests:
    import numpy as np

    from dure.bench.data import read_rows
    from dure.sim.serving.service import Requests

    rows = list(read_rows(path))
    columns = ("seconds", "prompt_tokens", "output_tokens")
    if not rows or any(column not in rows[0] for column in columns):
        raise InvalidInput(
            "not a recording", where=str(path), remedy=f"Give a CSV with columns {', '.join(columns)}."
        )
    try:
        table = np.array([[float(row[column]) for column in columns] for row in rows])
    except ValueError as error:
        raise InvalidInput(f"not a number: {error}", where=str(path)) from error
    if len(table) < 100 or np.any(np.diff(table[:, 0]) < 0):
        raise InvalidInput(
            "a recording needs at least 100 requests in order of time", where=str(path), remedy="Sort it by seconds."
        )
    at = table[:, 0] - table[0, 0]
    tokens = table[:, 1:].astype(np.int64)
    return Requests(at, tokens[:, 0], tokens[:, 1], float(at[-1]) + 1.0)


def _plot(path: Path, advice: Advice) -> None:
    import plotly.graph_objects as go

    figure = go.Figure()
    for series in dict.fromkeys((trial.policy, trial.signal) for trial in advice.trials):
        mine = sorted(
            (trial.gpu_hours, trial.miss_rate) for trial in advice.trials if (trial.policy, trial.signal) == series
        )
        figure.add_scatter(
            x=[hours for hours, _ in mine],
            y=[max(misses, 1e-5) * 100.0 for _, misses in mine],
            mode="lines+markers",
            name=" ".join(series),
        )
    figure.update_layout(title="Misses over GPU-hours", xaxis_title="GPU-hours", yaxis_title="misses, per cent")
    figure.update_yaxes(type="log")
    figure.write_html(path, include_plotlyjs="inline")
