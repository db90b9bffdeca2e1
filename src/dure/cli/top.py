"""`dure top`: the fleet in a terminal, renewed every second; keys sort, filter and go into detail."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from dure.cli.client import Client
from dure.cli.output import kilograms, moment, money, share, span
from dure.cli.state import state_option
from dure.files.params import FiniteRange

Row = dict[str, Any]
_SORTS: dict[str, Callable[[Row], Any]] = {
    "c": lambda row: -row["status"].get("spent_micros", 0),
    "n": lambda row: row["spec"]["name"],
    "t": lambda row: (row["spec"]["tenant"], row["spec"]["name"]),
    "p": lambda row: (row["status"].get("phase", ""), row["spec"]["name"]),
    "a": lambda row: row["status"].get("submitted_s", 0.0),
}
_PIPED_COLUMNS = 160
_KEYS = "q quit  c cost  n name  t tenant  p phase  a age  / filter  enter why  o pools  up/down choose"


class Screen(msgspec.Struct):
    """What the user has chosen to see."""

    sort: str = "p"
    words: str = ""
    typing: bool = False
    chosen: int = 0
    why: str = ""
    pools: bool = False

    def press(self, key: str) -> bool:
        """Take one key; False ends the show."""
        if self.typing:
            self._type(key)
        elif key in ("q", "\x03"):
            return False
        elif key in _SORTS:
            self.sort, self.chosen = key, 0
        elif key == "o":
            self.pools = not self.pools
        elif key == "/":
            self.typing, self.words = True, ""
        elif key == "\x1b[A":
            self.chosen = max(0, self.chosen - 1)
        elif key == "\x1b[B":
            self.chosen += 1
        elif key == "\x1b":
            self.words = self.why = ""
        elif key in ("\r", "\n"):
            self.why = "" if self.why else "?"
        return True

    def _type(self, key: str) -> None:
        if key in ("\r", "\n", "\x1b"):
            self.typing = False
        elif key in ("\x7f", "\b"):
            self.words = self.words[:-1]
        elif key.isprintable():
            self.words += key

    def rows(self, records: list[Row]) -> list[Row]:
        """Filtered and sorted; the choice stays inside."""
        found = [row for row in records if all(word in _haystack(row) for word in self.words.lower().split())]
        found.sort(key=_SORTS[self.sort])
        self.chosen = max(0, min(self.chosen, len(found) - 1))
        return found


@click.command()
@click.option("--every", "every_s", type=FiniteRange(0.2, 60), default=1.0, show_default=True, help="Seconds.")
@click.option("--once", is_flag=True, help="Print one picture and end; so does output that is piped.")
@state_option
def command(every_s: float, once: bool, state: Path) -> None:
    """Watch clusters and workloads live. Keys: c n t p a sort, / filters, enter asks why, o opens pools, q ends.

    \b
    Example:
      dure top
      dure top --once
    """
    client, screen = Client(state), Screen()
    console = Console()
    if once or not sys.stdin.isatty() or not console.is_terminal:
        # A pipe has no width of its own; nothing is to be cut off for want of one.
        Console(width=None if console.is_terminal else _PIPED_COLUMNS).print(_picture(client, screen, 1_000))
        return
    with _raw_keys() as read_key, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(_picture(client, screen, console.height), refresh=True)
            key = read_key(every_s)
            if key and not screen.press(key):
                return


def _picture(client: Client, screen: Screen, height: int) -> Group:
    status = client.get("/v1/status")
    clusters = _clusters(status, screen.pools)
    records = screen.rows(client.items("/v1/workloads", ended="false"))
    lines = len(status["clusters"]) + sum(len(one.get("pools", ())) for one in status["clusters"]) * screen.pools
    room = max(3, height - lines - 9)
    begin = max(0, min(screen.chosen - room // 2, len(records) - room))
    shown = records[begin : begin + room]
    parts: list[Any] = [_head(status, screen, len(records)), clusters]
    if screen.why and records:
        parts.append(_why(client, records[screen.chosen]["spec"]["name"]))
    else:
        parts.append(_workloads(shown, screen.chosen - begin, status["now_s"]))
    return Group(*parts, Text(_KEYS, style="dim"))


def _head(status: Row, screen: Screen, found: int) -> Text:
    totals, unit = status["totals"], status.get("currency", "KRW")
    filtered = f"  /{screen.words}{'_' if screen.typing else ''}" if screen.words or screen.typing else ""
    return Text(
        f"{status['name']}  {moment(status['now_s'])}  {money(totals.get('cost_per_hour_micros', 0))} {unit}/h  "
        f"{kilograms(totals.get('carbon_g_per_hour', 0.0))} CO2/h  in time {share(totals.get('slo_attainment'))}  "
        f"{totals.get('running', 0)} running, {totals.get('held', 0) + totals.get('pending', 0)} waiting  "
        f"({found} shown){filtered}",
        style="bold",
    )


def _clusters(status: Row, pools: bool) -> Table:
    """One line for each cluster, and with `pools` one for each of its pools below it."""
    unit = status.get("currency", "KRW")
    table = Table("CLUSTER", "USE", "", f"{unit}/h", "g/kWh", box=None, pad_edge=False)
    for cluster in status["clusters"]:
        intensity = cluster.get("carbon_g_per_kwh")
        table.add_row(*_use(cluster["name"], cluster), "unknown" if intensity is None else f"{intensity:.0f}")
        for pool in cluster.get("pools", ()) if pools else ():
            table.add_row(*_use(f"  {pool['name']}", pool), style="dim")
    return table


def _use(name: str, part: Row) -> tuple[str, str, str, str]:
    devices = part.get("devices", 0)
    used = part.get("used_milli", 0) / 1000 / devices if devices else 0.0
    filled = min(30, round(used * 30))
    bar = "#" * filled + "." * (30 - filled)
    return name, f"{used * devices:.1f} of {devices}", bar, money(part.get("cost_per_hour_micros", 0))


def _workloads(rows: list[Row], chosen: int, now_s: float) -> Table:
    table = Table("WORKLOAD", "TENANT", "TYPE", "PHASE", "WHERE", "READY", "AGE", "SPENT", box=None, pad_edge=False)
    for index, row in enumerate(rows):
        spec, status = row["spec"], row["status"]
        home = status.get("placement")
        table.add_row(
            spec["name"],
            spec["tenant"],
            spec["type"],
            status.get("phase", "pending"),
            f"{home['cluster']}/{home['pool']}" if home else (status.get("held") or [{}])[0].get("reason", ""),
            f"{status.get('ready', 0)}/{home['replicas']}" if home else "-",
            span(now_s - status.get("submitted_s", now_s)),
            money(status.get("spent_micros", 0)),
            style="reverse" if index == chosen else "",
        )
    return table


def _why(client: Client, name: str) -> Text:
    answer = client.get(f"/v1/workloads/{name}/why")
    lines = [f"{name}  {answer.get('headline', '')}"]
    lines += [f"  {line['where']:<24} {line['sentence']}" for line in answer.get("lines", ())]
    return Text("\n".join(lines))


def _haystack(row: Row) -> str:
    home = row["status"].get("placement") or {}
    words = (row["spec"]["name"], row["spec"]["tenant"], row["status"].get("phase", ""), home.get("cluster", ""))
    return " ".join(words).lower()


@contextmanager
def _raw_keys() -> Iterator[Callable[[float], str]]:
    """Keys one by one without echo; the terminal is as before when it ends, whatever happens."""
    import termios
    import tty

    stream = sys.stdin.fileno()
    before = termios.tcgetattr(stream)

    def read_key(timeout_s: float) -> str:
        ready, _, _ = select.select([stream], [], [], timeout_s)
        return os.read(stream, 8).decode("utf-8", "ignore") if ready else ""

    try:
        tty.setcbreak(stream)
        yield read_key
    finally:
        termios.tcsetattr(stream, termios.TCSADRAIN, before)
