"""Traps on the way of a metric: exporter, Service, ServiceMonitor, labels, and how late it arrives."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from dure.manifest import promql
from dure.manifest.document import Document, Json, Path, mapping, sequence, text
from dure.manifest.manifests import Manifests, Query
from dure.manifest.pods import PodSite, words_of
from dure.manifest.quantity import seconds
from dure.manifest.rule import Edit, Hit, Replace, Rule, SetKey, Severity

# Metrics whose exporter labels them with the pod they are about, by the word its monitor goes by.
_LABELLED = {"dcgm": re.compile(r"DCGM_"), "kube-state-metrics": re.compile(r"kube_(pod|deployment|job|node)_")}
_POD_LABELS = ("pod", "namespace", "container")
_DEFAULT_EXPORT_S = 30.0
_DEFAULT_SCRAPE_S = 30.0
_HPA_SYNC_S = 15.0
_LATE_S = 45.0
_NEWEST_MAJOR = 4


def _renamed_labels(manifests: Manifests) -> Iterator[Hit]:
    for word, metric in _LABELLED.items():
        endpoints = manifests.scrapes(word)
        if not endpoints:
            continue
        honoured = [_keeps_labels(endpoint) for _, _, endpoint in endpoints]
        for query in manifests.queries:
            expr = query.expr
            if not any(metric.match(selector.name) for selector in promql.selectors(expr)):
                continue
            used = promql.labels_used(expr)
            if not any(honoured):
                for label in (each for each in _POD_LABELS if each in used):
                    message = f"The label '{label}' is the exporter's own; the workload's is 'exported_{label}'"
                    edits = tuple(_honour(monitor, path, endpoint) for monitor, path, endpoint in endpoints)
                    yield Hit(query.document, query.path, message, edits if query.use == "scaler" else ())
            elif all(honoured):
                for label in (each for each in _POD_LABELS if f"exported_{each}" in used):
                    message = f"With honorLabels there is no label 'exported_{label}'; it is '{label}'"
                    yield Hit(query.document, query.path, message)
    for query in manifests.queries:
        yield from _greedy_prefix(manifests, query)


def _keeps_labels(endpoint: Json) -> bool:
    if text(endpoint.get("honorLabels")) == "true":
        return True
    relabelled = [mapping(each) for each in sequence(endpoint.get("metricRelabelings"))]
    return any("exported_pod" in map(text, sequence(each.get("sourceLabels"))) for each in relabelled)


def _honour(monitor: Document, path: Path, endpoint: Json) -> Edit:
    if "honorLabels" in endpoint:
        return Replace(monitor, (*path, "honorLabels"), "true")
    return SetKey(monitor, path, "honorLabels", "true")


def _greedy_prefix(manifests: Manifests, query: Query) -> Iterator[Hit]:
    """`model-a-.*` also matches the pods of another workload called model-a-large."""
    if query.use != "scaler":
        return
    own = manifests.target(query.document)[1]
    names = [site.document.name for site in manifests.pods if site.document.name not in ("", own)]
    for selector in promql.selectors(query.expr):
        for matcher in selector.matchers:
            if matcher.op != "=~" or matcher.label not in ("pod", "exported_pod"):
                continue
            caught = [name for name in names if _matches(matcher.value, f"{name}-7d9f8b6c5d-x2x4z")]
            if own and caught and _matches(matcher.value, f"{own}-7d9f8b6c5d-x2x4z"):
                message = f"'{matcher.value}' also matches the pods of '{caught[0]}'"
                yield Hit(query.document, query.path, message)


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.fullmatch(pattern.replace("\\\\", "\\"), name) is not None
    except re.error:
        return False


def _no_service(manifests: Manifests) -> Iterator[Hit]:
    for monitor in manifests.of("ServiceMonitor"):
        chosen = mapping(mapping(monitor.spec.get("selector")).get("matchLabels"))
        if not chosen:
            continue
        services = [each for each in manifests.of("Service") if chosen.items() <= each.labels.items()]
        reachable = [each for each in services if _in_scope(monitor, each)]
        if services and not reachable:
            message = (
                f"The Service '{services[0].name}' is in namespace '{services[0].namespace}', which is not selected"
            )
            yield Hit(monitor, ("spec", "selector"), message)
        elif reachable:
            yield from _missing_port(monitor, reachable)
        elif _exporters(manifests, monitor, chosen):
            labels = ", ".join(f"{key}={value}" for key, value in chosen.items())
            yield Hit(monitor, ("spec", "selector"), f"No Service has the labels {labels}; nothing is scraped")


def _in_scope(monitor: Document, service: Document) -> bool:
    scope = mapping(monitor.spec.get("namespaceSelector"))
    names = [text(each) for each in sequence(scope.get("matchNames"))] or [monitor.namespace]
    return text(scope.get("any")) == "true" or not service.namespace or names == [""] or service.namespace in names


def _missing_port(monitor: Document, services: list[Document]) -> Iterator[Hit]:
    ports = {text(mapping(port).get("name")) for each in services for port in sequence(each.spec.get("ports"))}
    for index, endpoint in enumerate(map(mapping, sequence(monitor.spec.get("endpoints")))):
        wanted = text(endpoint.get("port"))
        if wanted and wanted not in ports:
            have = ", ".join(sorted(each or "one without name" for each in ports)) or "none"
            message = f"No selected Service has a port named '{wanted}' (ports: {have}); nothing is scraped"
            yield Hit(monitor, ("spec", "endpoints", index, "port"), message)


def _exporters(manifests: Manifests, monitor: Document, chosen: Json) -> list[PodSite]:
    """Workloads among the manifests that the monitor was surely meant for."""
    wanted = {text(mapping(each).get("port")) for each in sequence(monitor.spec.get("endpoints"))}
    about_dcgm = "dcgm" in f"{monitor.name} {chosen}".lower()
    return [
        site
        for site in manifests.pods
        if chosen.items() <= site.labels.items()
        or (about_dcgm and "dcgm" in site.images)
        or wanted & {text(mapping(port).get("name")) for _, each in site.containers() for port in _ports(each)}
    ]


def _ports(container: Json) -> list[Json]:
    return [mapping(port) for port in sequence(container.get("ports")) if mapping(port).get("name")]


def _exporter_stays_away(manifests: Manifests) -> Iterator[Hit]:
    for site in manifests.pods:
        if site.document.kind != "DaemonSet" or not _gpu_agent(site):
            continue
        labels = [
            each for each in site.selects() if each.startswith(("nvidia.com/gpu.", "feature.node.kubernetes.io/"))
        ]
        given = {label for pool in manifests.gpu_pools for label in pool.labels}
        for label in labels:
            if manifests.gpu_pools and label not in given and not _discovers(manifests):
                message = f"Nothing here sets the node label '{label}' (GPU feature discovery does); no node matches"
                yield Hit(site.document, (*site.spec_path, "nodeSelector", label), message)
        for pool in manifests.gpu_pools:
            if pool.takes(site) and (missing := pool.missing(site)):
                taints = ", ".join(f"{taint.key}={taint.value}:{taint.effect}" for taint in missing)
                message = f"It does not tolerate {taints} of NodePool '{pool.name}', so it is not on those nodes"
                yield Hit(site.document, (*site.spec_path, "tolerations"), message)


def _gpu_agent(site: PodSite) -> bool:
    named = f"{site.images} {site.document.name}"
    return any(word in named for word in ("dcgm", "device-plugin", "gpu-feature-discovery", "mig-manager"))


def _discovers(manifests: Manifests) -> bool:
    if manifests.of("ClusterPolicy", "NodeFeatureDiscovery", "NVIDIADriver"):
        return True
    return any("feature-discovery" in site.images for site in manifests.pods)


def _late_signal(manifests: Manifests) -> Iterator[Hit]:
    scaled = any(
        selector.name.startswith("DCGM_")
        for query in manifests.queries
        if query.use == "scaler"
        for selector in promql.selectors(query.expr)
    )
    scrapes = [seconds(each.get("interval")) or _DEFAULT_SCRAPE_S for _, _, each in manifests.scrapes("dcgm")]
    for site in manifests.pods if scaled else ():
        for path, container in site.containers():
            if "dcgm-exporter" not in text(container.get("image")):
                continue
            where, every_s = _export_interval(path, container)
            total = every_s + max(scrapes, default=0.0) + _HPA_SYNC_S
            if total > _LATE_S:
                message = (
                    f"The signal is up to {total:.0f} s old when it is acted upon: collected every {every_s:.0f} s, "
                    f"scraped every {max(scrapes, default=0.0):.0f} s, looked at every {_HPA_SYNC_S:.0f} s"
                )
                yield Hit(site.document, where, message)


def _export_interval(path: Path, container: Json) -> tuple[Path, float]:
    for index, variable in enumerate(map(mapping, sequence(container.get("env")))):
        if variable.get("name") == "DCGM_EXPORTER_INTERVAL":
            return (*path, "env", index), (seconds(variable.get("value")) or 30_000.0) / 1000
    words = words_of(container)
    for flag, value in pairwise(words):
        if flag in ("-c", "--collect-interval"):
            return (*path, "args"), (seconds(value) or 30_000.0) / 1000
    return path, _DEFAULT_EXPORT_S


def _mighty_exporter(manifests: Manifests) -> Iterator[Hit]:
    for site in manifests.pods:
        for path, container in site.containers(init=True):
            capabilities = mapping(mapping(container.get("securityContext")).get("capabilities"))
            place = (*path, "securityContext", "capabilities")
            added = {text(each).removeprefix("CAP_") for each in sequence(capabilities.get("add"))}
            dropped = {text(each).upper() for each in sequence(capabilities.get("drop"))}
            if "SYS_ADMIN" in added and "ALL" not in dropped:
                edits = () if "drop" in capabilities else (SetKey(site.document, place, "drop", "[ALL]"),)
                yield Hit(site.document, place, "SYS_ADMIN is added and nothing is dropped", edits)
            found = re.search(r"dcgm-exporter:v?([0-9]+)\.", text(container.get("image")))
            if found and int(found[1]) < _NEWEST_MAJOR:
                message = f"The exporter is of major version {found[1]}; {_NEWEST_MAJOR} is current"
                yield Hit(site.document, (*path, "image"), message)


RULES = (
    Rule(
        "DURE002",
        Severity.ERROR,
        "A query names a label that the scrape has renamed, or pods of other workloads.",
        "Without honorLabels Prometheus keeps `pod` for the exporter's own pod and calls the workload's "
        "`exported_pod`. "
        "A query on `pod` finds nothing, and KEDA takes nothing for zero: the workload never grows.",
        "Set honorLabels: true on the exporter's endpoint (or query exported_pod), and name the namespace and the "
        "workload exactly.",
        "kind: ServiceMonitor  # no honorLabels\n---\nquery: avg(DCGM_FI_DEV_GPU_UTIL{pod=~'chat-.*'})",
        "kind: ServiceMonitor\nspec: {endpoints: [{honorLabels: true, port: metrics}]}\n---\n"
        "query: avg(DCGM_FI_DEV_GPU_UTIL{namespace='ml', pod=~'chat-[a-z0-9]+-[a-z0-9]+'})",
        _renamed_labels,
        fixable=True,
    ),
    Rule(
        "DURE006",
        Severity.ERROR,
        "A ServiceMonitor selects no Service or a port that it does not have.",
        "A ServiceMonitor finds pods only through the endpoints of a Service with the labels it selects. A "
        "DaemonSet alone "
        "is never scraped, and nothing says so.",
        "Add a Service with those labels and a named port, or use a PodMonitor.",
        "kind: DaemonSet ... labels: {app: dcgm-exporter}\n---\nkind: ServiceMonitor\n"
        "spec: {selector: {matchLabels: {app: dcgm-exporter}}, ...}",
        "kind: Service\nmetadata: {labels: {app: dcgm-exporter}}\nspec: {ports: [{name: metrics, port: 9400}], ...}",
        _no_service,
    ),
    Rule(
        "DURE011",
        Severity.ERROR,
        "A GPU agent (exporter, device plugin) does not run on all GPU nodes.",
        "A DaemonSet skips nodes whose taints it does not tolerate and whose labels do not match. No exporter on "
        "spot nodes "
        "means no metrics from them; the label nvidia.com/gpu.present exists only where GPU feature discovery runs.",
        "Tolerate every taint of every GPU pool (operator: Exists) and select a label that the pool itself sets.",
        "tolerations: [{key: nvidia.com/gpu, operator: Exists}]  # the pool has a spot taint as well",
        "tolerations: [{operator: Exists}]",
        _exporter_stays_away,
    ),
    Rule(
        "DURE023",
        Severity.WARNING,
        "The scaling signal is old before anything acts on it.",
        "Intervals add up: the exporter's (30 s unless set), the scrape's and the autoscaler's. With minutes of "
        "node boot "
        "and model load on top, scaling at a threshold is late by design.",
        "Set DCGM_EXPORTER_INTERVAL to 5000 and scrape every 10-15 s; keep headroom or a forecast for the start-up "
        "time.",
        "image: nvcr.io/nvidia/k8s/dcgm-exporter:4.5.3-4.8.2-distroless  # no interval: 30 s",
        "env: [{name: DCGM_EXPORTER_INTERVAL, value: '5000'}]",
        _late_signal,
    ),
    Rule(
        "DURE032",
        Severity.WARNING,
        "An exporter has more rights than it needs, or is a major version old.",
        "SYS_ADMIN is enough to take over a node; whoever adds it should drop everything else. Old exporters do "
        "not know "
        "new devices and fields.",
        "Drop ALL beside the added capability, and use the current major version.",
        "image: .../dcgm-exporter:3.3.5-3.4.0\nsecurityContext: {capabilities: {add: [SYS_ADMIN]}}",
        "image: .../dcgm-exporter:4.5.3-4.8.2\nsecurityContext: {capabilities: {drop: [ALL], add: [SYS_ADMIN]}}",
        _mighty_exporter,
        fixable=True,
    ),
)
