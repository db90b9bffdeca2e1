"""Which columns a table of each kind has. Those marked wide show only with `-o wide`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from dure.cli.output import kilograms, moment, money, share, span

Item = dict[str, Any]
Cell = Callable[[Item, float], str]


class Column(NamedTuple):
    title: str
    cell: Cell
    wide: bool = False


def _field(name: str, missing: str = "-") -> Cell:
    return lambda item, _now: str(item.get(name, missing) if item.get(name) not in (None, "") else missing)


def _home(item: Item, _now: float) -> str:
    placement = item["status"].get("placement")
    return f"{placement['cluster']}/{placement['pool']}" if placement else "-"


def _reason(item: Item, _now: float) -> str:
    held = item["status"].get("held", [])
    codes = list(dict.fromkeys(verdict.get("reason", "") for verdict in held))
    return (
        ", ".join(codes[:2]) + (" ..." if len(codes) > 2 else "") if held else item["status"].get("message", "")[:40]
    )


def _size(item: Item, _now: float) -> str:
    spec = item["spec"]
    if spec["type"] == "serving":
        replicas = spec.get("replicas", {})
        return f"{replicas.get('min', 1)}-{replicas.get('max', 1)}"
    return str(spec.get("gang", 1))


def _waited(item: Item, now_s: float) -> str:
    status = item["status"]
    begun = status.get("started_s") or status.get("finished_s") or now_s
    return span(begun - status.get("submitted_s", now_s))


def _used(item: Item, _now: float) -> str:
    devices = item.get("devices", 0)
    return share(item.get("used_milli", 0) / 1000 / devices) if devices else "-"


def _held(item: Item, _now: float) -> str:
    return ", ".join(dict.fromkeys(one["workload"] or one["pod"] for one in item.get("held", []))) or "free"


def _decision(item: Item, _now: float) -> str:
    decision = item["decision"]
    if decision["kind"] == "place":
        home = decision["placement"]
        return f"{home['cluster']}/{home['pool']}"
    if decision["kind"] == "bind":
        return f"{decision['pod']} on {decision['node']}"
    if decision["kind"] == "scale-replicas":
        return f"{decision['before']} to {decision['after']} replicas: {decision['reason']}"
    if decision["kind"] == "reallocate":
        return f"{decision['phase']} {decision['workload']} ({decision['replicas']}), plan {decision['standing']}"
    verdicts = decision.get("verdicts", [])
    return ", ".join(dict.fromkeys(one.get("reason", "") for one in verdicts)) or str(decision.get("reason", ""))[:60]


def _at(item: Item, now_s: float) -> str:
    return moment(item.get("at_s"), now_s)


def _expected(name: str) -> Cell:
    """The middle, and in brackets what holds one case in two and nine in ten."""

    def cell(item: Item, now_s: float) -> str:
        said = (item.get("eta") or {}).get(name)
        if said is None or (name == "start" and item["status"].get("started_s")):
            return "-"
        at = {key: moment(max(value, now_s), now_s) for key, value in said.items()}
        return f"{at['middle_s']} [{at['low_s']}, {at['high_s']}] [{at['lowest_s']}, {at['highest_s']}]"

    return cell


KINDS: dict[str, list[Column]] = {
    "workloads": [
        Column("NAME", lambda item, _: item["spec"]["name"]),
        Column("TENANT", lambda item, _: item["spec"]["tenant"]),
        Column("TYPE", lambda item, _: item["spec"]["type"]),
        Column("SIZE", _size),
        Column("PHASE", lambda item, _: item["status"].get("phase", "pending")),
        Column("PLACE", _home),
        Column("WAITED", _waited),
        Column("COST", lambda item, _: money(item["status"].get("spent_micros", 0))),
        Column("WHY", _reason),
        Column("START [50 %] [90 %]", _expected("start"), wide=True),
        Column("FINISH [50 %] [90 %]", _expected("finish"), wide=True),
        Column("CO2", lambda item, _: kilograms(item["status"].get("carbon_g", 0.0)), wide=True),
        Column("RESTARTS", lambda item, _: str(item["status"].get("restarts", 0)), wide=True),
        Column("CLASSES", lambda item, _: ",".join(one["name"] for one in item["spec"]["classes"]), wide=True),
        Column("MODEL", lambda item, _: item["spec"].get("model", "-"), wide=True),
        Column("SUBMITTED", lambda item, now: moment(item["status"].get("submitted_s"), now), wide=True),
    ],
    "clusters": [
        Column("NAME", _field("name")),
        Column("REGION", _field("region")),
        Column("DEVICES", _field("devices", "0")),
        Column("USED", _used),
        Column("RUNNING", _field("running", "0")),
        Column("COST/h", lambda item, _: money(item.get("cost_per_hour_micros", 0))),
        Column("CO2/h", lambda item, _: kilograms(item.get("carbon_g_per_hour", 0.0))),
        Column("g/kWh", _field("carbon_g_per_kwh", "unknown")),
        Column("SEEN", lambda item, now: moment(item.get("observed_s"), now)),
        Column("GRID", _field("grid"), wide=True),
        Column("ZONE", _field("timezone", "UTC"), wide=True),
    ],
    "pools": [
        Column("CLUSTER", _field("cluster")),
        Column("NAME", _field("name")),
        Column("CLASS", _field("class_name")),
        Column("CAPACITY", _field("capacity")),
        Column("NODES", lambda item, _: f"{item.get('nodes_ready', 0)}/{item.get('nodes', 0)}"),
        Column("DEVICES", _field("devices", "0")),
        Column("FREE", _field("free_devices", "0")),
        Column("USED", _used),
        Column("PRICE/h", lambda item, _: money(item.get("price_micros"))),
        Column("SHARE", lambda item, _: ",".join(item.get("share", [])), wide=True),
        Column("COST/h", lambda item, _: money(item.get("cost_per_hour_micros", 0)), wide=True),
    ],
    "devices": [
        Column("CLUSTER", _field("cluster")),
        Column("NODE", _field("node")),
        Column("ID", _field("id")),
        Column("CLASS", _field("class_name")),
        Column("MODE", _field("mode")),
        Column("HELD BY", _held),
        Column("POOL", _field("pool"), wide=True),
        Column("HEALTH", lambda item, _: "ok" if item.get("healthy", True) else "failed", wide=True),
    ],
    "classes": [
        Column("NAME", _field("name")),
        Column("VENDOR", _field("vendor")),
        Column("KIND", _field("kind")),
        Column("GiB", lambda item, _: f"{item['memory_mib'] / 1024:g}"),
        Column("GB/s", lambda item, _: f"{item['bandwidth_gbs']:g}"),
        Column("TOPS", lambda item, _: " ".join(f"{name}:{value:g}" for name, value in item["tops"].items())),
        Column("WATT", lambda item, _: f"{item['peak_w']:g}"),
        Column("SHARE", lambda item, _: ",".join(item.get("share", [])), wide=True),
        Column("RESOURCE", _field("resource"), wide=True),
    ],
    "tenants": [
        Column("NAME", _field("name")),
        Column("WEIGHT", lambda item, _: f"{item.get('weight', 1.0):g}"),
        Column("ISOLATION", _field("isolation", "shared")),
        Column("QUOTA", lambda item, _: ", ".join(f"{k}:{v}" for k, v in item.get("quota", {}).items()) or "-"),
        Column("MONEY/month", lambda item, _: money(item.get("budget", {}).get("money_micros"))),
        Column("CO2/month", lambda item, _: kilograms(item.get("budget", {}).get("carbon_g"))),
    ],
    "policies": [
        Column("NAME", _field("name")),
        Column("VERB", _field("verb")),
        Column("ALGORITHM", _field("algorithm", "default")),
        Column("VERSION", _field("version", "1")),
        Column("STATE", lambda item, _: "paused" if item.get("paused") else "active"),
        Column("BY", _field("changed_by"), wide=True),
        Column("CHANGED", lambda item, now: moment(item.get("changed_s"), now), wide=True),
    ],
    "decisions": [
        Column("SEQ", _field("seq")),
        Column("TIME", _at),
        Column("KIND", lambda item, _: item["decision"]["kind"]),
        Column("WORKLOAD", lambda item, _: item["decision"].get("workload", "-") or "-"),
        Column("WHAT", _decision),
        Column("DIGEST", _field("digest"), wide=True),
    ],
    "events": [
        Column("TIME", _at),
        Column("KIND", _field("kind")),
        Column("MESSAGE", _field("message")),
        Column("TENANT", _field("tenant"), wide=True),
        Column("CLUSTER", _field("cluster"), wide=True),
    ],
}
