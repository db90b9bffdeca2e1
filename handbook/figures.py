"""Every metric that Dure's processes show, read off the collectors themselves, and what it reads from others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.metrics import MetricWrapperBase

from dure.adapters.clock import VirtualClock
from dure.adapters.memory.store import MemoryStore
from dure.adapters.memory.stream import standing
from dure.api.metrics import Metrics
from dure.embedded.week import START_S
from dure.embedded.world import EmbeddedWorld
from dure.files.builtin import catalogue, demo_fleet
from dure.gateway import metrics as gateway_metrics
from dure.model.units import HOUR_S
from dure.watch import foreign, history
from handbook.text import cell, table

HEAD = """\
# Metrics

How to scrape and where the past is kept: [metrics](../metrics.md). `krw` in a name is the fleet's currency.

"""
_LABELS = "labels"


def page() -> str:
    return "\n".join(
        [
            HEAD + "## The plane: `GET /metrics`\n",
            _families(plane()),
            "## The gateway: `GET /metrics`\n",
            _families(gateway()),
            "## Kept series: `GET /v1/series/{name}`\n",
            table(("series",), [(f"`{name}`",) for name in kept()]),
            "## Read from other exporters\n",
            table(
                ("theirs", "Dure's", "layer", "times"),
                [(f"`{name}`", f"`{rule.name}`", rule.layer, f"{rule.factor:g}") for name, rule in read().items()],
            ),
        ]
    )


@cache
def world() -> EmbeddedWorld:
    """The demo fleet after an hour with two services: every figure has something to show."""
    clock = VirtualClock(START_S)
    fleet, known = demo_fleet(), catalogue()
    made = EmbeddedWorld(fleet, known, MemoryStore(), clock, seed=1)
    made.submit(standing(fleet, known)[:2])
    for step in range(12):
        made.step()
        clock.advance(START_S + (step + 1) * HOUR_S / 12)
    made.step()
    return made


def plane() -> list[Metric]:
    status = world().desk.status()
    pulse: Any = SimpleNamespace(status=lambda: status)
    shares: Any = SimpleNamespace(list_devices=list)
    metrics = Metrics(pulse, world().store, shares)
    metrics.count("GET", "/v1/status", 200, 0.001)
    return _collected(metrics.registry)


def gateway() -> list[Metric]:
    metrics = gateway_metrics.Metrics()
    for each in vars(metrics).values():
        if isinstance(each, MetricWrapperBase) and each._labelnames:
            # One child, so that the family shows its labels.
            each.labels(*each._labelnames)
    return _collected(metrics.registry)


def kept() -> list[str]:
    """Names of the series that the plane keeps of itself."""
    return sorted(value for name, value in vars(history).items() if name.isupper() and str(value).startswith("dure_"))


def read() -> dict[str, foreign.Rule]:
    return foreign.RULES


def _collected(registry: CollectorRegistry) -> list[Metric]:
    return sorted(registry.collect(), key=lambda family: family.name)


def _families(found: Iterable[Metric]) -> str:
    rows = [(f"`{shown(one)}`", one.type, cell(", ".join(_labels(one))), cell(one.documentation)) for one in found]
    return table(("metric", "type", _LABELS, "what"), rows)


def shown(family: Metric) -> str:
    """As a query names it: counters end in _total."""
    return f"{family.name}_total" if family.type == "counter" else family.name


def _labels(family: Metric) -> Iterator[str]:
    names = getattr(family, "_labelnames", ())
    yield from names or sorted({name for sample in family.samples for name in sample.labels} - {"le"})
