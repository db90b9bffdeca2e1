"""The kind Workload: training, batch or serving, as a tenant submits it.

`settle` fills in what the catalogue knows and the file leaves out: classes and speeds of a known model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dure.files.quantities import CORES, DURATION, FRACTION, MEMORY, MILLISECONDS, RATE, SHARE
from dure.files.reading import BROKEN, Reading
from dure.files.shapes import (
    NAME,
    Choice,
    Flag,
    Free,
    Key,
    ListOf,
    Number,
    Quantity,
    Record,
    Schema,
    Shape,
    Text,
    Whole,
    changed,
)
from dure.files.yaml import Value
from dure.model.accelerator import ShareMode
from dure.model.catalogue import Catalogue
from dure.model.demand import Demand
from dure.model.pulse import Scaling
from dure.model.workload import AcceptedClass, Replicas, Slo, SpeedUp, Workload, WorkloadType

# Stands for a speed that the file leaves out, until `settle` asks the catalogue; files cannot say 0.
_UNKNOWN_SPEED = 0.0


def _accepted(name: str, speed: float = _UNKNOWN_SPEED) -> AcceptedClass:
    return AcceptedClass(name, speed)


_ACCEPTED = Record(
    "An accelerator class that the workload can use.",
    (
        Key("name", NAME, "Name of the class.", required=True),
        Key(
            "speed",
            Number(above=True, most=1e6),
            "Speed relative to the first class; from the catalogue if left out.",
        ),
    ),
    _accepted,
    lambda accepted: {"name": accepted.name, "speed": accepted.speed},
)


class Accepted(Shape):
    """`a10g`, or `{name: a10g, speed: 0.55}`."""

    kind = "the name of a class or a mapping with name and speed"

    def read(self, value: Value, path: str, into: Reading) -> Any:
        if isinstance(value.data, dict):
            return _ACCEPTED.read(value, path, into)
        name = NAME.read(value, path, into)
        return name if name is BROKEN else _accepted(name)

    def schema(self) -> Schema:
        return {"anyOf": [NAME.schema(), _ACCEPTED.schema()]}

    def write(self, value: Any) -> Any:
        return _ACCEPTED.write(value)


DEMAND = Record(
    "What one replica asks for: whole devices, or a share of one.",
    (
        Key("devices", Whole(0, 10_000), "Whole devices per replica; 0 or left out for a share of one."),
        Key("memory", Quantity(MEMORY), "Device memory, per device.", "memory_mib"),
        Key("compute", Quantity(SHARE), "Share of one device's compute, on the first class.", "compute_milli"),
        Key("bandwidth", Quantity(SHARE), "Share of one device's bandwidth, on the first class.", "bandwidth_milli"),
        Key("cpu", Quantity(CORES), "Host CPU cores.", "cpu_milli"),
        Key("hostMemory", Quantity(MEMORY), "Host memory.", "host_memory_mib"),
    ),
    Demand,
)
_LATENCY = Record(
    "Latency of one request.",
    (Key("p95", Quantity(MILLISECONDS, positive=True), "19 of 20 requests are faster.", required=True),),
    lambda p95: p95,
    lambda p95: {"p95": p95},
)
SLO = Record(
    "What is promised to the users of a serving workload.",
    (
        Key("latency", _LATENCY, "Latency of one request.", "latency_p95_ms"),
        Key("throughput", Quantity(RATE), "Requests that must be served.", "throughput_per_s"),
        Key("availability", Quantity(FRACTION), "Share of requests that get an answer.", "availability"),
    ),
    Slo,
)
_REPLICAS = Record(
    "How many replicas a serving workload may have.",
    (Key("min", Whole(0, 100_000), "Fewest."), Key("max", Whole(1, 100_000), "Most.")),
    lambda min=1, max=0: Replicas(min, max or min or 1),  # noqa: A006 - the keys of the file are the names
    lambda replicas: {"min": replicas.min, "max": replicas.max},
)
_SPEEDUP = Record(
    "Measured speed of an elastic gang.",
    (
        Key("replicas", Whole(1, 100_000), "Members.", required=True),
        Key("speed", Number(above=True), "Speed relative to the smallest size.", required=True),
    ),
    SpeedUp,
)
_DATASET = Record(
    "The data set that is read.",
    (
        Key("name", Text(longest=200), "Name, as in the clusters' datasets.", "dataset", required=True),
        Key("size", Quantity(MEMORY), "Size, for the cost of moving it.", "dataset_mib"),
    ),
    dict,
)

_PLAIN_KEYS = (
    Key("type", Choice(WorkloadType), "What it is.", required=True),
    Key("model", NAME, "Model of the catalogue that it loads."),
    Key("classes", ListOf(Accepted(), unique="name", least=1, most=100), "Classes it accepts, best first."),
    Key("demand", DEMAND, "What one replica asks for.", required=True),
    Key("gang", Whole(1, 100_000), "Pods that start together or not at all; 1 if left out."),
    Key("replicas", _REPLICAS, "Replicas of a serving workload."),
    Key("speedups", ListOf(_SPEEDUP, most=1000), "Measured speeds of an elastic gang by size."),
    Key("duration", Quantity(DURATION), "Estimated run time on the first class.", "duration_s"),
    Key("deadline", Quantity(DURATION, positive=True), "When it must be done, from submission.", "deadline_s"),
    Key("deferrable", Flag(), "Whether it may wait for a cheaper or greener hour; true if left out."),
    Key("interruptible", Flag(), "Whether it may be stopped and restarted; needed for spot."),
    Key("checkpoint", Quantity(DURATION), "Time between checkpoints.", "checkpoint_s"),
    Key("rate", Quantity(RATE), "Requests that come in.", "rate_per_s"),
    Key("slo", SLO, "What is promised."),
    Key("scaling", Choice(Scaling), "Who sets a serving's replicas; auto if left out: its engines' metrics decide."),
    Key("priority", Whole(-1000, 1000), "Higher goes first; 0 if left out."),
    Key("regions", ListOf(Text(r"[-a-z0-9*?.]+", "use letters, digits, '-', '.', '*' and '?'"), most=1000),
        "Regions it may run in, with * and ?; all if left out."),
    Key("share", ListOf(Choice(ShareMode)), "Share modes it accepts; all if left out."),
    Key("template", Free(), "An ordinary pod template; left out for a dry run."),
)  # fmt: skip
_DATASET_KEY = Key("dataset", _DATASET, "The data set that is read.")


def _spec(dataset: Mapping[str, Any] | None = None, **rest: Any) -> dict[str, Any]:
    return {**rest, **(dataset or {})}


def _taken(workload: Workload) -> dict[str, Any]:
    taken = changed(workload, _PLAIN_KEYS)
    return {**taken, "dataset": workload} if workload.dataset else taken


METADATA = Record(
    "Who it is.",
    (
        Key("name", NAME, "The workload's name.", required=True),
        Key("tenant", NAME, "Its owner; the tenant of your token if left out."),
    ),
    dict,
    lambda workload: {"name": workload.name, **({"tenant": workload.tenant} if workload.tenant else {})},
)
SPEC = Record("What it asks for.", (*_PLAIN_KEYS, _DATASET_KEY), _spec, _taken)


def make(metadata: dict[str, Any], spec: dict[str, Any]) -> Workload:
    return Workload(**{"tenant": "", "classes": (), **metadata, **spec})


def settle(workload: Workload, catalogue: Catalogue) -> Workload:
    """The workload with classes and speeds that its file left to the catalogue."""
    known = catalogue.models.get(workload.model)
    speeds = known.speed if known else {}
    classes = workload.classes or tuple(AcceptedClass(name, speed) for name, speed in speeds.items())
    if not classes:
        return workload
    first = classes[0].name
    settled = tuple(
        accepted if accepted.speed else AcceptedClass(accepted.name, _speed(accepted.name, first, speeds, catalogue))
        for accepted in classes
    )
    return msgspec.structs.replace(workload, classes=settled)


def _speed(name: str, first: str, speeds: Mapping[str, float], catalogue: Catalogue) -> float:
    """Measured for this model where the catalogue has it, else in proportion to compute throughput."""
    if name == first:
        return 1.0
    if name in speeds and first in speeds:
        return speeds[name] / speeds[first]
    here, reference = catalogue.classes.get(name), catalogue.classes.get(first)
    if here is None or reference is None or not (here.best_tops and reference.best_tops):
        return 1.0
    return here.best_tops / reference.best_tops
