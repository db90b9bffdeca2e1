"""`dure notify`: what waits to be told, silences, and a letter to try a channel with."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dure.cli.state import state_option
from dure.model.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from dure.adapters.notify.outbox import Outbox

FILE = "notify.db"
_UNITS = {"m": 60.0, "h": 3600.0, "d": 86_400.0}


@click.group()
def command() -> None:
    """Notices by webhook, Slack and e-mail: see what waits, silence, try a channel.

    \b
    Example:
      dure up --notify slack+https://hooks.slack.com/services/... --notify smtp://mail:25/ops@example.org
      dure notify silence 'cluster/cloud-us' --for 2h --why maintenance
    """


@command.command(name="list")
@state_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def list_command(state: Path, as_json: bool) -> None:
    """What stands and was told, letters that wait, silences.

    \b
    Example:
      dure notify list
    """
    outbox = _outbox(state)
    told, waiting, silences = outbox.told(), outbox.waiting(), outbox.silences(time.time())
    outbox.close()
    if as_json:
        shown = {
            "standing": [{"key": key, "sentence": one.sentence, "told_s": at_s} for key, (one, at_s) in told.items()],
            "waiting": [
                {"channel": one.channel, "title": one.letter.title, "tries": one.tries, "trouble": one.trouble}
                for one in waiting
            ],
            "silences": [{"pattern": one.pattern, "until_s": one.until_s, "why": one.why} for one in silences],
        }
        click.echo(json.dumps(shown))
        return
    for key, (notice, _) in sorted(told.items()):
        click.echo(f"stands    {key}: {notice.sentence}")
    for one in waiting:
        why = f" ({one.tries} tries, last: {one.trouble})" if one.tries else ""
        click.echo(f"waits     {one.channel}: {one.letter.title}{why}")
    for silence in silences:
        left = (silence.until_s - time.time()) / 60
        click.echo(f"silenced  {silence.pattern} for {left:.0f} min{': ' + silence.why if silence.why else ''}")
    if not (told or waiting or silences):
        click.echo("Nothing stands, nothing waits, nothing is silenced.")


@command.command()
@click.argument("pattern")
@click.option("--for", "length", default="1h", show_default=True, help="30m, 2h or 1d.")
@click.option("--why", default="", help="Shown in the list.")
@click.option("--end", is_flag=True, help="End this silence instead.")
@state_option
def silence(pattern: str, length: str, why: str, end: bool, state: Path) -> None:
    """Tell nothing of what PATTERN matches: cluster/NAME, workload/NAME, risk/NAME, or with *.

    \b
    Example:
      dure notify silence 'cluster/cloud-*' --for 2h --why maintenance
      dure notify silence 'cluster/cloud-*' --end
    """
    from dure.watch.notices import Silence

    outbox = _outbox(state)
    try:
        if not end:
            until_s = time.time() + _seconds(length)
            outbox.silence(Silence(pattern, until_s, why))
            click.echo(f"{pattern}: silent for {length}")
        elif not outbox.end_silence(pattern):
            raise NotFound(f"'{pattern}' is not silenced", remedy="'dure notify list' shows what is.")
        else:
            click.echo(f"{pattern}: told again")
    finally:
        outbox.close()


@command.command()
@click.argument("address")
def test(address: str) -> None:
    """Send one letter to ADDRESS now and say whether it was taken.

    \b
    Example:
      dure notify test smtp://mail.example.org/ops@example.org
    """
    from dure.adapters.notify.channels import channel_of
    from dure.watch.notices import Letter, Notice

    channel = channel_of(address)
    notice = Notice("test/test", "test", "This is a test; nothing is wrong.")
    channel.deliver(Letter(f"test-{time.time():.0f}", "dure", "test", time.time(), (notice,)))
    click.echo(f"{channel.name} took it")


def _outbox(state: Path) -> Outbox:
    from dure.adapters.notify.outbox import Outbox

    if not state.is_dir():
        raise NotFound(f"no state in {state}", remedy="Say --state, or start Dure first: dure up")
    return Outbox(state / FILE)


def _seconds(text: str) -> float:
    matched = re.fullmatch(r"(\d+(?:\.\d+)?)([mhd])", text)
    if matched is None:
        raise InvalidInput(f"'{text}' is no length of time", remedy="Say 30m, 2h or 1d.")
    return float(matched[1]) * _UNITS[matched[2]]
