"""What a report is made of: figures fetched from the running Dure, and the two replays that measure the saving."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from dure.adapters.memory.store import MemoryStore
from dure.cli.client import Client
from dure.cli.fleet_file import fleet_and_catalogue
from dure.embedded.summary import Summary
from dure.model.errors import InvalidInput
from dure.model.posting import Account
from dure.model.workload import Phase, WorkloadRecord, WorkloadType
from dure.watch.advice import Advice, Promise, advice
from dure.watch.drift import Drift
from dure.watch.waste import Use, Waste

# After the window both worlds go on for this long without new work, so that what waited gets done.
DRAIN_DAYS = 1.0

_UNITS_S = {"h": 3600.0, "d": 86_400.0, "w": 604_800.0}


class Found(msgspec.Struct, frozen=True):
    """`ledger` is the answer of `/v1/ledger` by day, cluster, pool and account; `tenants` by tenant and account."""

    name: str
    currency: str
    demo: bool
    since_s: float
    until_s: float
    ledger: dict[str, Any]
    tenants: list[dict[str, Any]]
    models: list[dict[str, Any]]
    waste: list[Waste]
    pools: list[Use]
    budgets: list[dict[str, Any]]
    anomalies: list[dict[str, Any]]
    drifts: list[Drift]
    advice: tuple[Advice, ...]
    sheet: str


class Outcome(msgspec.Struct, frozen=True):
    """One of the two replays. Money and carbon are of the work that both got done, and of the services."""

    cost_micros: int
    carbon_kg: float
    slo_attainment: float | None
    deadlines_met: float | None
    wait_mean_s: float
    done: int


class Savings(msgspec.Struct, frozen=True):
    dure: Outcome
    fixed: Outcome
    workloads: int
    compared: int
    days: float
    seed: int

    @property
    def part(self) -> float:
        return 1 - self.dure.cost_micros / self.fixed.cost_micros if self.fixed.cost_micros else 0.0


def collect(client: Client, since: str) -> Found:
    status = client.get("/v1/status")
    until_s = float(status["now_s"])
    since_s = until_s - length_s(since)
    window = {"since_s": str(since_s), "until_s": str(until_s)}
    ledger = client.get("/v1/ledger", by="day,cluster,pool,account", **window)
    wasted = msgspec.convert(client.get("/v1/waste", **window)["items"], list[Waste])
    budgets = client.get("/v1/slo")["items"]
    drifts = msgspec.convert(client.get("/v1/drift")["items"], list[Drift])
    currency = status.get("currency", "KRW")
    pools = _pools(ledger["items"])
    promises = [Promise(one["workload"], one["state"]["attained"], one["state"]["target"]) for one in budgets]
    return Found(
        name=status["name"],
        currency=currency,
        demo=status.get("demo", False),
        since_s=since_s,
        until_s=until_s,
        ledger=ledger,
        tenants=client.get("/v1/ledger", by="tenant,account", **window)["items"],
        models=client.get("/v1/ledger", by="model,group", **window)["items"],
        waste=wasted,
        pools=pools,
        budgets=budgets,
        anomalies=client.get("/v1/anomalies", since_s=str(since_s))["items"],
        drifts=drifts,
        advice=advice(pools, wasted, promises, drifts, currency),
        sheet=client.text("/v1/ledger.csv", by="day,cluster,pool,account,tenant,model,workload", **window),
    )


def length_s(text: str) -> float:
    try:
        seconds = float(text[:-1]) * _UNITS_S[text[-1:]]
    except (KeyError, ValueError) as error:
        raise InvalidInput(f"'{text}' is not a length of time", remedy="Write 24h, 7d or 4w.") from error
    if not 0 < seconds <= 366 * 86_400:
        raise InvalidInput(f"'{text}' is not between 0 and a year", remedy="Write 24h, 7d or 4w.")
    return seconds


def replayed_savings(
    client: Client, found: Found, fleet_file: Path | None, seed: int, progress: Callable[[float], None]
) -> Savings | None:
    """None where nothing was submitted in the window: there is nothing to play again."""
    from dure.embedded.fixed import fixed, fixed_fleet
    from dure.embedded.week import Run, Timed, simulate

    fleet, catalogue = fleet_and_catalogue(fleet_file)
    records = msgspec.convert(client.items("/v1/workloads"), list[WorkloadRecord], strict=False)
    coming: list[Timed] = []
    for record in records:
        at_s = record.status.submitted_s
        # A service that stood before the window stands in it from its beginning.
        stands = record.spec.type is WorkloadType.SERVING and not record.status.phase.ended
        if at_s >= found.since_s or stands:
            coming.append((max(found.since_s, at_s), record.spec))
    if not coming:
        return None
    days = (found.until_s - found.since_s) / 86_400
    run = Run(fleet, catalogue, coming, days=days + DRAIN_DAYS, seed=seed, start_s=found.since_s)
    still = msgspec.structs.replace(run, fleet=fixed_fleet(fleet))
    ours, theirs = MemoryStore(), MemoryStore()
    summaries = (
        simulate(run, lambda done: progress(done / 2), store=ours),
        simulate(still, lambda done: progress(0.5 + done / 2), store=theirs, decide=fixed(fleet)),
    )
    both = _comparable(ours) & _comparable(theirs)
    return Savings(
        dure=_outcome(summaries[0], ours, both),
        fixed=_outcome(summaries[1], theirs, both),
        workloads=len(coming),
        compared=len(both),
        days=days,
        seed=seed,
    )


def _comparable(store: MemoryStore) -> set[str]:
    """What is done, and what is served: work that still waits has cost nothing yet, which is no saving."""
    return {
        record.name
        for record in store.list_workloads()
        if record.status.phase is Phase.DONE or record.spec.type is WorkloadType.SERVING
    }


def _outcome(summary: Summary, store: MemoryStore, both: set[str]) -> Outcome:
    mine = [record.status for record in store.list_workloads() if record.name in both]
    return Outcome(
        cost_micros=sum(status.spent_micros for status in mine),
        carbon_kg=sum(status.carbon_g for status in mine) / 1000,
        slo_attainment=summary.slo_attainment,
        deadlines_met=summary.deadlines_met,
        wait_mean_s=summary.wait_mean_s,
        done=summary.done,
    )


def _pools(items: list[dict[str, Any]]) -> list[Use]:
    """The pools of the window, summed over its days."""
    sums: dict[tuple[str, str], dict[str, float]] = {}
    for item in items:
        row = sums.setdefault((item["by"]["cluster"], item["by"]["pool"]), {})
        group = Account(item["by"]["account"]).group
        row[group] = row.get(group, 0) + item["micros"]
        row[f"{group} hours"] = row.get(f"{group} hours", 0.0) + item["device_hours"]
    return [
        Use(
            *key, int(row.get("paid", 0)), int(row.get("used", 0)), int(row.get("idle", 0)),
            int(row.get("overhead", 0)), row.get("paid hours", 0.0), row.get("used hours", 0.0),
        )
        for key, row in sorted(sums.items())
    ]  # fmt: skip
