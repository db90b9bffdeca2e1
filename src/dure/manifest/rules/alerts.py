"""Traps in alerts, dashboards and the words around them: wrong arithmetic, wrong grouping, wrong units."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dure.manifest import promql
from dure.manifest.document import Document, mapping, strings, text
from dure.manifest.manifests import Manifests
from dure.manifest.rule import Hit, Rule, Severity

_USED = re.compile(r"used|_usage_bytes", re.IGNORECASE)
_FREE = re.compile(r"free|avail", re.IGNORECASE)
_UTIL = re.compile(r"util|_ACTIVE\b", re.IGNORECASE)
_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
# Places whose text is a program or a template of its own, where ${...} has a meaning.
_PROGRAMS = {
    "command",
    "args",
    "data",
    "stringData",
    "binaryData",
    "userData",
    "script",
    "expr",
    "query",
    "annotations",
}
_ADDRESS = re.compile(r"^https?://(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|localhost)(?=[:/]|$)")
_CLAIMS = (
    (
        re.compile(r"FB_(?:USED|FREE|TOTAL|RESERVED)\b.*?\b(?:bytes|MB|GB|GiB|KB|percent)\b|"
                   r"FB_(?:USED|FREE|TOTAL|RESERVED)\b.*%"),
        "Frame buffer figures (FB_USED, FB_FREE) are MiB",
    ),
    (
        re.compile(r"DEV_GPU_UTIL\b.*?\b(?:core|SM|compute)s?\b[- ]*(?:util|occup|usage|load|사용률)", re.IGNORECASE),
        "GPU_UTIL is the share of time in which any kernel ran, not how full the cores are",
    ),
    (
        re.compile(r"MEM_COPY_UTIL\b.*?\b(?:memory (?:usage|used|fill)|bandwidth|copy engine)", re.IGNORECASE),
        "MEM_COPY_UTIL is the share of time in which memory was read or written, neither fill nor bandwidth",
    ),
    (
        re.compile(r"KEDA\b[^.\n]*?\b(?:ask|request|call|trigger|tell|instruct|invoke|signal)\w*\b[^.\n]*?\bKarpenter",
                   re.IGNORECASE),
        "KEDA never talks to Karpenter: it adds replicas, and their pending pods make Karpenter add nodes",
    ),
)  # fmt: skip


def _used_over_free(manifests: Manifests) -> Iterator[Hit]:
    for query in manifests.queries:
        for part in promql.walk(query.expr):
            if not isinstance(part, promql.Binary) or part.op != "/":
                continue
            above = {each.name for each in promql.selectors(part.left)}
            below = {each.name for each in promql.selectors(part.right)}
            if not above or not below or not all(map(_USED.search, above)):
                continue
            if all(_FREE.search(name) and not _USED.search(name) for name in below):
                message = "used / free exceeds 0.9 from 47 % fill on; the share is used / (used + free)"
                yield Hit(query.document, query.path, message)


def _fleet_mean(manifests: Manifests) -> Iterator[Hit]:
    for query in manifests.queries:
        if query.use != "alert":
            continue
        for part in promql.walk(query.expr):
            if not isinstance(part, promql.Binary) or part.op not in promql.COMPARISONS:
                continue
            mean = part.left
            if isinstance(mean, promql.Call) and mean.name == "avg" and not mean.grouping and not _one_workload(mean):
                names = [each.name for each in promql.selectors(mean) if _UTIL.search(each.name)]
                if names:
                    yield Hit(query.document, query.path, f"avg({names[0]}) over everything hides hot workloads")


def _one_workload(expr: promql.Expr) -> bool:
    matched = {matcher.label for selector in promql.selectors(expr) for matcher in selector.matchers}
    return bool(matched & {"pod", "exported_pod", "deployment", "app", "workload", "service"})


def _loose_ends(manifests: Manifests) -> Iterator[Hit]:
    for document in manifests.documents:
        for path, found in strings(document.data):
            if _VARIABLE.search(found) and not _PROGRAMS & set(path) and "value" not in path[-1:]:
                message = f"{_VARIABLE.findall(found)[0]} is not expanded by Kubernetes; it is taken as it stands"
                yield Hit(document, path, message, severity=Severity.ERROR)
    for trigger in manifests.triggers:
        if _ADDRESS.search(text(trigger.metadata.get("serverAddress"))):
            path = (*trigger.path, "metadata", "serverAddress")
            yield Hit(
                trigger.document, path, "The address of Prometheus is a fixed IP address; use its Service's name"
            )
    for document in manifests.of("ServiceMonitor", "PodMonitor", "PrometheusRule"):
        yield from _unselected(manifests, document)
    yield from _bare_alerts(manifests)


def _unselected(manifests: Manifests, document: Document) -> Iterator[Hit]:
    key = {"PrometheusRule": "ruleSelector", "PodMonitor": "podMonitorSelector"}.get(
        document.kind, "serviceMonitorSelector"
    )
    selectors = [each.spec[key] for each in manifests.of("Prometheus") if isinstance(each.spec.get(key), dict)]
    if not selectors and not document.labels:
        message = "It has no labels; an operator's usual selector (release: ...) does not choose it"
        yield Hit(document, ("metadata",), message)
    wanted = [mapping(selector.get("matchLabels")) for selector in selectors]
    if wanted and not any(each.items() <= document.labels.items() for each in wanted):
        yield Hit(
            document, ("metadata", "labels"), f"The Prometheus here selects {wanted[0]}, which it does not have"
        )


def _bare_alerts(manifests: Manifests) -> Iterator[Hit]:
    for query in manifests.queries:
        if query.use != "alert":
            continue
        annotations = mapping(query.owner.get("annotations"))
        if not annotations.keys() & {"description", "message"}:
            name = text(query.owner.get("alert"))
            message = f"Alert '{name}' has no description: it does not tell what happened and what to do"
            yield Hit(query.document, query.path[:-1], message)


def _wrong_words(manifests: Manifests) -> Iterator[Hit]:
    for document in manifests.documents:
        for line, remark in document.remarks:
            yield from (Hit(document, (), claim, line=line) for claim in _claims(remark))
        for path, found in strings(document.data):
            if path[-1:] and path[-1] in ("expr", "query"):
                continue
            for row in found.split("\n"):
                yield from (Hit(document, path, claim) for claim in _claims(row))
    yield from _wrong_units(manifests)


def _claims(said: str) -> list[str]:
    return [claim for pattern, claim in _CLAIMS if pattern.search(said) and not re.search(r"\bMiB\b|\bnever\b", said)]


def _wrong_units(manifests: Manifests) -> Iterator[Hit]:
    for query in manifests.queries:
        names = {each.name for each in promql.selectors(query.expr)}
        fill = any(name.startswith("DCGM_FI_DEV_FB_") for name in names)
        if query.use == "panel" and fill:
            unit = text(mapping(mapping(query.owner.get("fieldConfig")).get("defaults")).get("unit"))
            if unit in ("bytes", "decbytes", "gbytes", "decgbytes") and not _scaled(query.expr):
                yield Hit(
                    query.document, query.path, f"A panel shows frame buffer figures, which are MiB, as '{unit}'"
                )
        if query.use == "alert" and names == {"DCGM_FI_DEV_MEM_COPY_UTIL"}:
            said = f"{query.owner.get('alert')} {query.owner.get('annotations')}"
            if re.search(r"memory\s*(pressure|full|usage|fill)|OutOfMemory|MemoryPressure", said, re.IGNORECASE):
                yield Hit(query.document, query.path, _CLAIMS[2][1])
        if query.use == "alert" and fill and _bytes_compared(query.expr):
            yield Hit(query.document, query.path, "Frame buffer figures are MiB; they are compared with bytes here")


def _scaled(expr: promql.Expr | None) -> bool:
    return any(isinstance(part, promql.Binary) and part.op in ("*", "/") for part in promql.walk(expr))


def _bytes_compared(expr: promql.Expr | None) -> bool:
    return any(
        isinstance(part, promql.Binary)
        and part.op in promql.COMPARISONS
        and isinstance(part.right, promql.Number)
        and part.right.value >= 1e8
        for part in promql.walk(expr)
    )


RULES = (
    Rule(
        "DURE007",
        Severity.ERROR,
        "Memory pressure is computed as used / free.",
        "used / free passes 0.9 when 47 % are used, so the alert is always on, and a serving engine fills the "
        "memory of its "
        "device on purpose anyway.",
        "Divide by used + free (and reserved); for LLM serving watch the KV cache (vllm:kv_cache_usage_perc) "
        "instead.",
        "expr: DCGM_FI_DEV_FB_USED / DCGM_FI_DEV_FB_FREE > 0.9",
        "expr: DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE) > 0.9",
        _used_over_free,
    ),
    Rule(
        "DURE026",
        Severity.WARNING,
        "An alert looks at the mean utilisation of the whole fleet.",
        "One saturated workload disappears in the mean of all others, and a busy fleet is not a fault.",
        "Group by workload (by (namespace, pod)), or alert on what users feel: queue length, latency.",
        "expr: avg(DCGM_FI_DEV_GPU_UTIL) > 90",
        "expr: avg by (namespace, pod) (DCGM_FI_DEV_GPU_UTIL) > 90",
        _fleet_mean,
    ),
    Rule(
        "DURE034",
        Severity.WARNING,
        "Loose ends: unexpanded variables, fixed addresses, monitors nobody selects, alerts without description.",
        "Kubernetes takes ${NAME} literally; a pod's address changes; the Prometheus operator ignores objects "
        "without the "
        "labels it selects; an alert without description wakes someone who does not know what to do.",
        "Expand variables before applying, use Service names, add the operator's label, and describe each alert.",
        "kind: ServiceMonitor\nmetadata: {name: dcgm}\n---\nrole: KarpenterNodeRole-${CLUSTER_NAME}",
        "kind: ServiceMonitor\nmetadata: {name: dcgm, labels: {release: prometheus}}\n---\nrole: "
        "KarpenterNodeRole-prod",
        _loose_ends,
    ),
    Rule(
        "DURE036",
        Severity.WARNING,
        "Words or units around a metric say something that is not so.",
        "Whoever sets thresholds from a wrong unit or a wrong story sets them wrong: FB figures are MiB, GPU_UTIL "
        "is time "
        "with any kernel running, and nodes come from pending pods, not from KEDA.",
        "Correct the words, the unit of the panel, or the threshold.",
        "# KEDA asks Karpenter for new nodes",
        "# KEDA adds replicas; pods that find no node make Karpenter add one",
        _wrong_words,
    ),
)
