"""All objects that are judged together, and the questions that rules ask across them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property

import msgspec

from dure.manifest import promql
from dure.manifest.document import Document, Json, Path, mapping, same_namespace, sequence, text
from dure.manifest.pods import PodSite, pod_sites
from dure.manifest.pool import Pool, read_pool
from dure.model.offer import InstanceOffer


class Trigger(msgspec.Struct, frozen=True, eq=False):
    """One trigger of a ScaledObject."""

    document: Document
    path: Path
    data: Json

    @property
    def metadata(self) -> Json:
        return mapping(self.data.get("metadata"))

    @property
    def type(self) -> str:
        return text(self.data.get("type"))

    @property
    def query(self) -> str:
        return text(self.metadata.get("query"))


class Query(msgspec.Struct, frozen=True, eq=False):
    """One PromQL expression somewhere in the manifests; `use` is scaler, alert, record or panel."""

    document: Document
    path: Path
    text: str
    use: str
    owner: Json = {}

    @property
    def expr(self) -> promql.Expr | None:
        return promql.parse(self.text)


class Manifests:
    """Built once for a run of all rules; everything derived is computed when first asked for."""

    def __init__(self, documents: tuple[Document, ...], offers: tuple[InstanceOffer, ...] = ()) -> None:
        self.documents = documents
        self.offers = offers

    def of(self, *kinds: str) -> list[Document]:
        return [document for document in self.documents if document.kind in kinds]

    @cached_property
    def pods(self) -> list[PodSite]:
        return [site for document in self.documents for site in pod_sites(document)]

    @cached_property
    def pools(self) -> list[Pool]:
        return [read_pool(document, self.offers) for document in self.of("NodePool")]

    @cached_property
    def gpu_pools(self) -> list[Pool]:
        return [pool for pool in self.pools if pool.gpu]

    @cached_property
    def triggers(self) -> list[Trigger]:
        return [
            Trigger(document, ("spec", "triggers", index), each)
            for document in self.of("ScaledObject", "ScaledJob")
            for index, each in enumerate(sequence(document.spec.get("triggers")))
            if isinstance(each, dict)
        ]

    @cached_property
    def queries(self) -> list[Query]:
        return [*self._scaler_queries(), *self._rule_queries(), *self._panel_queries()]

    def target(self, scaler: Document) -> tuple[str, str]:
        """Kind and name of what a ScaledObject or HPA scales."""
        found = mapping(scaler.spec.get("scaleTargetRef"))
        return text(found.get("kind")) or "Deployment", text(found.get("name"))

    def scalers_of(self, document: Document) -> list[Document]:
        """Autoscalers that scale this workload."""
        return [
            scaler
            for scaler in self.of("ScaledObject", "HorizontalPodAutoscaler")
            if self.target(scaler) == (document.kind, document.name) and same_namespace(scaler, document)
        ]

    def scrapes(self, prefix: str) -> list[tuple[Document, Path, Json]]:
        """Endpoints of monitors that by their names or targets scrape exporters called like `prefix`."""
        return [
            (monitor, ("spec", key, index), endpoint)
            for monitor in self.of("ServiceMonitor", "PodMonitor")
            if self._about(monitor, prefix)
            for key in ("endpoints", "podMetricsEndpoints")
            for index, endpoint in enumerate(sequence(monitor.spec.get(key)))
            if isinstance(endpoint, dict)
        ]

    def _about(self, monitor: Document, word: str) -> bool:
        selector = mapping(monitor.spec.get("selector"))
        if word in monitor.name.lower() or word in json.dumps(selector).lower():
            return True
        chosen = mapping(selector.get("matchLabels"))
        services = [each for each in self.of("Service") if chosen and chosen.items() <= each.labels.items()]
        wanted = [chosen, *(mapping(each.spec.get("selector")) for each in services)]
        return any(
            word in site.images and any(labels and labels.items() <= site.labels.items() for labels in wanted)
            for site in self.pods
        )

    def _scaler_queries(self) -> Iterator[Query]:
        for trigger in self.triggers:
            if trigger.query:
                path = (*trigger.path, "metadata", "query")
                yield Query(trigger.document, path, trigger.query, "scaler", trigger.data)

    def _rule_queries(self) -> Iterator[Query]:
        for document in self.documents:
            base: Path = ("spec", "groups") if document.kind == "PrometheusRule" else ("groups",)
            for g, group in enumerate(sequence(document.at(base))):
                for r, rule in enumerate(sequence(mapping(group).get("rules"))):
                    found = mapping(rule)
                    use = "alert" if "alert" in found else "record"
                    if text(found.get("expr")):
                        yield Query(document, (*base, g, "rules", r, "expr"), text(found["expr"]), use, found)

    def _panel_queries(self) -> Iterator[Query]:
        for document in self.of("ConfigMap"):
            for name, content in mapping(document.data.get("data")).items():
                if not name.endswith(".json") or not isinstance(content, str):
                    continue
                try:
                    dashboard = json.loads(content)
                except ValueError:
                    continue
                for panel in panels(dashboard):
                    for target in sequence(panel.get("targets")):
                        if query := text(mapping(target).get("expr")):
                            yield Query(document, ("data", name), query, "panel", panel)


def panels(dashboard: object) -> Iterator[Json]:
    """Panels of a dashboard, those inside of rows too."""
    for panel in sequence(mapping(dashboard).get("panels")):
        if isinstance(panel, dict):
            yield panel
            yield from panels(panel)
