"""`dure share`: look at a shared device and steer it: a device daemon, or the devices of a running fleet."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from dure.cli.state import default_state
from dure.files.params import FiniteRange
from dure.model.errors import Temporary, kind_of

NO_TARGET_MS = 1e6
STATE = "dure.state"


def default_socket() -> Path:
    """`DURE_DEVICE`, or `device.sock` in the state folder of the user."""
    named = os.environ.get("DURE_DEVICE")
    return Path(named) if named else default_state() / "device.sock"


def ask(device: str | None, method: str, path: str, body: Any = None) -> Any:
    """One call about a shared device: to its daemon (socket or http://), or to a running Dure with its fleet.

    Without a name the daemon of this machine is asked if there is one, else the fleet. Errors come back as our own.
    """
    where = device or os.environ.get("DURE_DEVICE") or ""
    socket = Path(where) if where else default_socket()
    if where.startswith("http://") or socket.is_socket():
        return _ask_daemon(where or str(socket), method, path, body)
    if socket.is_absolute() and where:
        raise _away(where, "no such socket")
    return _ask_fleet(where, method, path, body)


def _ask_daemon(where: str, method: str, path: str, body: Any) -> Any:
    import httpx

    over_http = where.startswith("http://")
    transport = None if over_http else httpx.HTTPTransport(uds=where)
    try:
        with httpx.Client(
            transport=transport, base_url=where if over_http else "http://device", timeout=60.0, trust_env=False
        ) as client:
            answer = client.request(method, path, json=body)
    except (httpx.HTTPError, OSError) as error:
        raise _away(where, str(error)) from error
    if answer.status_code != 200:
        raise kind_of(answer.status_code)(answer.json().get("detail", answer.text))
    return answer.json()


def _ask_fleet(device: str, method: str, path: str, body: Any) -> Any:
    from urllib.parse import quote

    from dure.cli.client import Client

    if device:
        path += f"{'&' if '?' in path else '?'}device={quote(device)}"
    try:
        client = Client(click.get_current_context().meta.get(STATE) or default_state())
    except Temporary as error:
        raise _away(device or str(default_socket()), "neither a daemon nor a running Dure is here") from error
    return client.call(method, path, body)


def _away(where: str, why: str) -> Temporary:
    return Temporary(
        f"no shared device at {where}: {why}",
        remedy="Start one ('dure up' has a fleet of them, 'dure device run --demo' a real one), or give --device.",
    )


def state_of_fleet(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--state` for a command that may ask the fleet; `ask` finds it in the context."""
    return click.option(
        "--state",
        type=click.Path(file_okay=False, path_type=Path),
        expose_value=False,
        callback=lambda context, _, value: context.meta.update({STATE: value}),
        help="Folder that holds the running Dure's state.  [DURE_STATE]",
    )(command)


def device_option(command: Callable[..., Any]) -> Callable[..., Any]:
    named = "A daemon's socket or http:// address, or CLUSTER/DEVICE of the fleet.  [DURE_DEVICE]"
    return click.option("--device", help=named)(state_of_fleet(command))


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def command() -> None:
    """Look at a shared device, and steer it.

    \b
    Example:
      dure share status
    """


@command.command()
@state_of_fleet
@json_option
def devices(as_json: bool) -> None:
    """The devices of the running fleet that several tenants share.

    \b
    Example:
      dure share devices
    """
    found = _ask_fleet("", "GET", "/v1/share/devices", None)["items"]
    if as_json:
        click.echo(json.dumps({"devices": found}))
        return
    for device in found:
        click.echo(f"{device['device']:<32} {device['policy']:<14} {', '.join(t['name'] for t in device['tenants'])}")


@command.command()
@device_option
@json_option
def status(device: str | None, as_json: bool) -> None:
    """Policy, tenants, promises and weights of the device now.

    \b
    Example:
      dure share status --json
    """
    _show(ask(device, "GET", "/v1/share/status"), as_json)


@command.group()
def policy() -> None:
    """Which policy orders the tenants.

    \b
    Example:
      dure share policy set slo
    """


@policy.command(name="set")
@click.argument("name")
@device_option
@json_option
def set_policy(name: str, device: str | None, as_json: bool) -> None:
    """Use a policy (jct, slo, hybrid, slack-guarded, or auto) from the next squad on.

    \b
    Example:
      dure share policy set auto
    """
    _show(ask(device, "PUT", "/v1/share/policy", {"policy": name}), as_json)


@command.command()
@device_option
@json_option
def weights(device: str | None, as_json: bool) -> None:
    """Weights of the tenants over the last minutes.

    \b
    Example:
      dure share weights --json
    """
    points = ask(device, "GET", "/v1/share/timeline?window=1")["weights"]
    if as_json:
        click.echo(json.dumps({"weights": points}))
        return
    for point in points:
        listed = "  ".join(f"{name} {value:.3f}" for name, value in sorted(point["weights"].items()))
        click.echo(f"{point['at_ms'] / 1000.0:9.1f} s  {point['policy']:<14} {listed}")


@command.command()
@device_option
@json_option
def pairs(device: str | None, as_json: bool) -> None:
    """How much tenants disturb each other, as learnt so far, and who is worth running together.

    \b
    Example:
      dure share pairs
    """
    found = ask(device, "GET", "/v1/share/status")["pairs"]
    if as_json:
        click.echo(json.dumps({"pairs": found}))
        return
    click.echo(f"{'TENANT':<28}{'BESIDE':<28}{'RHO':>7}{'+-':>7}{'TOGETHER':>10}")
    for pair in found:
        click.echo(
            f"{pair['tenant']:<28}{pair['other']:<28}{pair['rho']:>7.3f}{pair['sd']:>7.3f}{pair['together']:>10.2f}"
        )


@command.command()
@click.option("--follow", is_flag=True, help="Go on until interrupted.")
@device_option
@json_option
def squads(follow: bool, device: str | None, as_json: bool) -> None:
    """The latest squads: who ran together, how many segments, how many threads or partitions.

    \b
    Example:
      dure share squads --follow
    """
    after = 0
    while True:
        for squad in ask(device, "GET", f"/v1/share/squads?after={after}")["squads"]:
            after = squad["number"]
            click.echo(json.dumps(squad) if as_json else _line(squad))
        if not follow:
            return
        time.sleep(0.5)


@command.command()
@click.option("--window", type=FiniteRange(0.1), default=5.0, show_default=True, help="Seconds to show.")
@click.option(
    "--report", type=click.Path(dir_okay=False, path_type=Path), help="Write an HTML page with the timeline."
)
@device_option
@json_option
def timeline(window: float, report: Path | None, device: str | None, as_json: bool) -> None:
    """What ran when, with which part of the device: tenants as colours, gaps are bubbles.

    \b
    Example:
      dure share timeline --window 2 --report timeline.html
    """
    found = ask(device, "GET", f"/v1/share/timeline?window={window * 1000.0}")
    if report is not None:
        _write_page(found, report)
        click.echo(f"Timeline written to {report}", err=True)
    if as_json:
        click.echo(json.dumps(found))
    elif report is None:
        if not found["spans"]:
            click.echo(f"Nothing ran in the last {window:g} s.", err=True)
        for span in found["spans"]:
            click.echo(
                f"{span['start_ms']:10.2f} - {span['end_ms']:10.2f} ms  {span['tenant']:<16} "
                f"segments {span['first']}-{span['last']}  {span['share']:.0%}"
            )


def _line(squad: dict[str, Any]) -> str:
    members = ", ".join(f"{name} x{segments} on {threads}" for name, segments, threads in squad["members"])
    return f"{squad['number']:6d}  {squad['at_ms'] / 1000.0:9.3f} s  {squad['policy']:<14} {members}"


def _show(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(found))
        return
    mode = "chosen by the goals" if found["automatic"] else "fixed"
    click.echo(f"{found['device']}: policy {found['policy']} ({mode}), {found['parts']} {found['unit']}")
    for name, why in found["set_aside"].items():
        click.echo(f"  policy {name} failed and is set aside, slack-guarded orders in its place: {why}")
    click.echo(f"{'TENANT':<28}{'WAITING':>8}{'WEIGHT':>9}{'TARGET':>12}{'KEPT':>8}{'RISK':>7}{'ANSWERED':>10}")
    for t in found["tenants"]:
        kept = f"{t['attained']:.1%}" if t["attained"] is not None else "-"
        risk = f"{t['risk']:.2f}" if t["risk"] is not None else "-"
        target = f"{t['target_ms']:.4g} ms" if t["target_ms"] < NO_TARGET_MS else "-"
        click.echo(
            f"{t['name']:<28}{t['waiting']:>8}{t['weight']:>9.3f}{target:>12}{kept:>8}{risk:>7}{t['answered']:>10}"
        )
        if t["refused"]:
            click.echo(f"  not let in: {t['refused']}")


def _write_page(found: dict[str, Any], report: Path) -> None:
    import plotly.graph_objects as go

    spans = found["spans"]
    figure = go.Figure()
    for name in sorted({s["tenant"] for s in spans}):
        own = [s for s in spans if s["tenant"] == name]
        figure.add_bar(
            name=name,
            base=[s["start_ms"] for s in own],
            x=[s["end_ms"] - s["start_ms"] for s in own],
            y=[name] * len(own),
            width=[0.9 * s["share"] for s in own],
            orientation="h",
            hovertext=[f"squad {s['squad']}, segments {s['first']}-{s['last']}, {s['share']:.0%}" for s in own],
        )
    figure.update_layout(title="Device timeline", xaxis_title="ms since start", barmode="overlay", template="none")
    figure.write_html(str(report), include_plotlyjs=True)
