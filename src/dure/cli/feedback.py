"""`dure feedback`: tell a shared device how a tenant feels; it moves the target within limits and fades."""

from __future__ import annotations

import json

import click

from dure.cli.share import ask, device_option, json_option
from dure.model.errors import InvalidInput


@click.command()
@click.argument("tenant")
@click.option("--too-slow", "word", flag_value="too-slow", help="Tighten the latency target.")
@click.option("--fine", "word", flag_value="fine", help="Leave it; recorded.")
@click.option("--batch", "word", flag_value="batch", help="Loosen it: nobody is waiting for an answer.")
@device_option
@json_option
def command(tenant: str, word: str | None, device: str | None, as_json: bool) -> None:
    """Say how a tenant's speed is; the effect fades after an hour.

    \b
    Example:
      dure feedback search --too-slow
    """
    if word is None:
        raise InvalidInput("say --too-slow, --fine or --batch", remedy="Example: dure feedback search --too-slow")
    found = ask(device, "POST", "/v1/share/feedback", {"tenant": tenant, "word": word})
    if as_json:
        click.echo(json.dumps(found))
        return
    if found["target_ms"] >= 1e6:
        click.echo(f"{tenant}: recorded; it has no latency target to move")
    else:
        click.echo(f"{tenant}: target {found['before_ms']:.4g} ms -> {found['target_ms']:.4g} ms, for an hour")
