"""The checklist of `dure advise`: fetch the record from the running Dure, compute, show."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import click
import msgspec

from dure.cli.client import Client
from dure.cli.output import money, print_data
from dure.manifest.savings import Saving, recorded_s, savings
from dure.model.answer import ClusterStatus, PoolStatus
from dure.model.workload import WorkloadRecord


def show_savings(state: Path, output: str) -> None:
    client = Client(state)
    status = client.get("/v1/status")
    records = msgspec.convert(client.items("/v1/workloads"), list[WorkloadRecord], strict=False)
    pools = msgspec.convert(client.items("/v1/pools"), list[PoolStatus], strict=False)
    clusters = msgspec.convert(client.items("/v1/clusters"), list[ClusterStatus], strict=False)
    now_s = float(status["now_s"])
    offsets = {each.name: _offset_h(each.timezone, now_s) for each in clusters}
    found = savings(pools, records, now_s, offsets)
    if output in ("json", "yaml"):
        span_s = recorded_s(records, now_s)
        print_data({"now_s": now_s, "record_s": span_s, "savings": msgspec.to_builtins(found)}, output)
        return
    _show(found, str(status.get("currency", "KRW")), recorded_s(records, now_s))


def _show(found: list[Saving], currency: str, span_s: float) -> None:
    for saving in found:
        amount = (
            "unknown" if saving.micros_per_month is None else f"{money(saving.micros_per_month)} {currency} a month"
        )
        click.echo(f"{saving.name:14} {amount:>24}   {saving.finding}")
        for step in saving.plan:
            click.echo(f"{'':14} {'':>24}   - {step}")
    if any(saving.micros_per_month is not None for saving in found):
        hours = round(span_s / 3600)
        length = f"{hours} h" if hours < 48 else f"{hours // 24} days"
        click.echo(
            f"Projected from this fleet's own record of {length}; savings overlap and do not add up.", err=True
        )


def _offset_h(timezone: str, at_s: float) -> float:
    offset = datetime.fromtimestamp(at_s, ZoneInfo(timezone)).utcoffset()
    return offset.total_seconds() / 3600 if offset else 0.0
