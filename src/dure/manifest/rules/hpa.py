"""Traps around the HorizontalPodAutoscaler: several masters, metrics nobody serves, steps and bands it cannot do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations

from dure.manifest.document import Document, Json, Path, mapping, number, same_namespace, sequence, strings, text
from dure.manifest.manifests import Manifests
from dure.manifest.rule import Hit, Rule, Severity

_TRANSFER = "scaledobject.keda.sh/transfer-hpa-ownership"
_KEDA_METRIC = re.compile(r"s([0-9]+)-.+|composite-metric")
_GPU_METRIC = re.compile(r"gpu|dcgm|vllm|nvidia|kv_cache|num_requests", re.IGNORECASE)
_DOWN = re.compile(r"scale[-_]?(down|in).*(threshold|target|util)|(low|lower|down)[-_]?threshold", re.IGNORECASE)
_SCALE = re.compile(r"(?:kubectl|oc)\s+(?:-\S+\s+(?:\S+\s+)?)*?scale\s+([^\n;&|]*)")


def _two_masters(manifests: Manifests) -> Iterator[Hit]:
    scalers = [each for each in manifests.of("ScaledObject", "HorizontalPodAutoscaler") if not _made_by_keda(each)]
    for one, other in combinations(scalers, 2):
        if not same_namespace(one, other) or _transfers(one, other) or _transfers(other, one):
            continue
        if (one.kind, one.name, one.namespace) == (other.kind, other.name, other.namespace):
            continue
        kind, name = manifests.target(one)
        if name and manifests.target(other) == (kind, name):
            message = f"{other} and {one} both scale {kind} '{name}'; each of them stops with AmbiguousSelector"
            yield Hit(other, ("spec", "scaleTargetRef"), message)
        elif shared := _shared_pods(manifests, one, other):
            message = f"{other} and {one} scale workloads whose selectors choose the same pods ({shared})"
            yield Hit(other, ("spec", "scaleTargetRef"), message)


def _made_by_keda(document: Document) -> bool:
    owners = sequence(document.metadata.get("ownerReferences"))
    if any(mapping(owner).get("kind") == "ScaledObject" for owner in owners):
        return True
    return text(document.annotations.get("validations.keda.sh/hpa-ownership")) == "false"


def _transfers(scaled: Document, hpa: Document) -> bool:
    """KEDA takes over an HPA that it is told to."""
    config = mapping(mapping(scaled.spec.get("advanced")).get("horizontalPodAutoscalerConfig"))
    return text(scaled.annotations.get(_TRANSFER)) == "true" and text(config.get("name")) == hpa.name


def _shared_pods(manifests: Manifests, one: Document, other: Document) -> str:
    chosen = [
        mapping(mapping(document.spec.get("selector")).get("matchLabels"))
        for scaler in (one, other)
        for document in manifests.documents
        if (document.kind, document.name) == manifests.target(scaler) and same_namespace(document, scaler)
    ]
    if len(chosen) != 2 or not chosen[0] or chosen[0] != chosen[1]:
        return ""
    return ", ".join(f"{key}={value}" for key, value in chosen[0].items())


def _nobody_serves(manifests: Manifests) -> Iterator[Hit]:
    scaled = manifests.of("ScaledObject")
    names = {document.name for document in scaled}
    served = _adapter_text(manifests)
    for document in manifests.of("HorizontalPodAutoscaler"):
        if _made_by_keda(document):
            continue
        for index, metric in enumerate(map(mapping, sequence(document.spec.get("metrics")))):
            found = mapping(mapping(metric.get("external")).get("metric"))
            name = text(found.get("name"))
            path: Path = ("spec", "metrics", index, "external", "metric", "name")
            if not name or name in served:
                continue
            chosen = text(mapping(mapping(found.get("selector")).get("matchLabels")).get("scaledobject.keda.sh/name"))
            if _KEDA_METRIC.fullmatch(name):
                if scaled and chosen not in names:
                    yield Hit(
                        document, path, f"'{name}' needs the selector scaledobject.keda.sh/name of a ScaledObject"
                    )
            elif scaled and not served:
                message = f"Nothing serves the external metric '{name}'; KEDA calls its own s0-prometheus, s1-..."
                yield Hit(document, path, message)
            elif not served and _GPU_METRIC.search(name):
                yield Hit(document, path, f"Nothing here serves the external metric '{name}'")


def _adapter_text(manifests: Manifests) -> str:
    """What another adapter of metrics is told to serve, as text; names are looked up in it."""
    maps = [
        each for each in manifests.of("ConfigMap") if re.search(r"externalRules|\brules:", str(each.data.get("data")))
    ]
    return "\n".join(found for each in maps for _, found in strings(each.data))


def _by_hand(manifests: Manifests) -> Iterator[Hit]:
    scalers = manifests.of("ScaledObject", "HorizontalPodAutoscaler")
    scaled = {name: scaler for scaler in scalers for _, name in [manifests.target(scaler)] if name}
    for site in manifests.pods:
        for path, container in site.containers(init=True):
            said = " ".join(text(each) for key in ("command", "args") for each in sequence(container.get(key)))
            yield from _scale_commands(site.document, path, said, scaled)
    for document in manifests.of("ConfigMap"):
        for key, content in mapping(document.data.get("data")).items():
            yield from _scale_commands(document, ("data", key), text(content), scaled)
    yield from _outside_of_range(manifests)


def _scale_commands(document: Document, path: Path, said: str, scaled: dict[str, Document]) -> Iterator[Hit]:
    for command in _SCALE.findall(said):
        words = set(re.split(r"[\s/=]+", command))
        for name in sorted(words & scaled.keys()):
            message = f"`kubectl scale` on '{name}' is undone within one sync: {scaled[name]} scales it"
            yield Hit(document, path, message)


def _outside_of_range(manifests: Manifests) -> Iterator[Hit]:
    for document in manifests.of("Deployment", "StatefulSet"):
        replicas = number(document.spec.get("replicas"))
        for scaler in manifests.scalers_of(document) if replicas is not None else ():
            least, most = bounds(scaler)
            if replicas is not None and not least <= replicas <= most:
                message = f"{replicas:g} replicas lie outside of {least:g}..{most:g} of {scaler}, which undoes them"
                yield Hit(document, ("spec", "replicas"), message)


def bounds(scaler: Document) -> tuple[float, float]:
    if scaler.kind == "ScaledObject":
        most = number(scaler.spec.get("maxReplicaCount"))
        return number(scaler.spec.get("minReplicaCount")) or 0.0, 100.0 if most is None else most
    least, most = number(scaler.spec.get("minReplicas")), number(scaler.spec.get("maxReplicas"))
    return 1.0 if least is None else least, float("inf") if most is None else most


def _behaviours(manifests: Manifests) -> Iterator[tuple[Document, Path, Json]]:
    for document in manifests.of("HorizontalPodAutoscaler"):
        yield document, ("spec", "behavior"), mapping(document.spec.get("behavior"))
    for document in manifests.of("ScaledObject"):
        path: Path = ("spec", "advanced", "horizontalPodAutoscalerConfig", "behavior")
        yield document, path, mapping(document.at(path))


def _coarse_percent(manifests: Manifests) -> Iterator[Hit]:
    for document, path, behaviour in _behaviours(manifests):
        down = mapping(behaviour.get("scaleDown"))
        policies = [mapping(each) for each in sequence(down.get("policies"))]
        pods = [each for each in policies if each.get("type") == "Pods"]
        if pods and down.get("selectPolicy") == "Min":
            continue
        least, most = bounds(document)
        for index, policy in enumerate(policies):
            value = number(policy.get("value"))
            if policy.get("type") != "Percent" or not value or value >= 100 or max(least, 1) >= 100 / value:
                continue
            start = int(max(least, 1)) + 1
            after = int(start * (1 - value / 100))
            if most < start:
                continue
            lost = (start - after) / start
            message = f"{value:g} % of {start} is cut down to whole pods: {start} -> {after} loses {lost:.0%} at once"
            yield Hit(document, (*path, "scaleDown", "policies", index, "value"), message)


def _two_thresholds(manifests: Manifests) -> Iterator[Hit]:
    for document in manifests.of("ScaledObject"):
        seen: dict[str, tuple[str, int]] = {}
        for index, trigger in enumerate(map(mapping, sequence(document.spec.get("triggers")))):
            metadata = mapping(trigger.get("metadata"))
            query = re.sub(r"\s+", "", text(metadata.get("query")))
            threshold = text(metadata.get("threshold"))
            first = seen.setdefault(query, (threshold, index)) if query else (threshold, index)
            if first[0] != threshold:
                message = (
                    f"The same query has the thresholds {first[0]} and {threshold}; the larger answer always wins"
                )
                yield Hit(document, ("spec", "triggers", index, "metadata", "threshold"), message)
            for key in metadata:
                if _DOWN.search(key):
                    yield Hit(document, ("spec", "triggers", index, "metadata", key), _no_band(key))
    for document in manifests.of("ScaledObject", "HorizontalPodAutoscaler"):
        for key in document.annotations:
            if _DOWN.search(key):
                yield Hit(document, ("metadata", "annotations", key), _no_band(key))
    for document in manifests.of("HorizontalPodAutoscaler"):
        yield from _twice_the_same_metric(document)


def _twice_the_same_metric(document: Document) -> Iterator[Hit]:
    seen: dict[str, Json] = {}
    for index, metric in enumerate(map(mapping, sequence(document.spec.get("metrics")))):
        kind = text(metric.get("type"))
        found = mapping(metric.get(kind[:1].lower() + kind[1:]))
        name = f"{kind} {found.get('name') or found.get('metric')} {found.get('container')}"
        if seen.setdefault(name, mapping(found.get("target"))) != mapping(found.get("target")):
            message = "The same metric has two targets; the larger answer always wins"
            yield Hit(document, ("spec", "metrics", index), message)


def _no_band(key: str) -> str:
    return f"'{key}' has no effect: an autoscaler has one target, not one for up and one for down"


RULES = (
    Rule(
        "DURE004",
        Severity.ERROR,
        "Two autoscalers scale the same pods.",
        "The HPA controller refuses to scale pods that belong to more than one HPA: each of them gets the condition "
        "AmbiguousSelector and only minimum and maximum are still enforced. KEDA makes an HPA for every "
        "ScaledObject.",
        "Keep one of them. Several metrics belong into one object, as triggers or metrics.",
        "kind: ScaledObject ... scaleTargetRef: {name: chat}\n---\nkind: HorizontalPodAutoscaler ... "
        "scaleTargetRef: {name: chat}",
        "kind: ScaledObject ... scaleTargetRef: {name: chat}\n# both metrics are triggers of this one",
        _two_masters,
    ),
    Rule(
        "DURE005",
        Severity.ERROR,
        "An HPA asks for an external metric that nothing serves.",
        "External metrics come from one adapter. KEDA's serves only its own names (s0-prometheus with the selector "
        "scaledobject.keda.sh/name), so the HPA stays at FailedGetExternalMetric and does nothing.",
        "Scale with the ScaledObject alone, or configure the adapter that serves this name.",
        "metrics:\n- type: External\n  external: {metric: {name: gpu_utilization}, ...}",
        "kind: ScaledObject\nspec:\n  triggers:\n  - type: prometheus ...",
        _nobody_serves,
    ),
    Rule(
        "DURE022",
        Severity.WARNING,
        "Replicas of an autoscaled workload are set by hand.",
        "The autoscaler writes the number of replicas at every sync (15 s), so a number set by a script, or one "
        "outside of "
        "its bounds, is gone at once. A promised minimum has to be the autoscaler's minimum.",
        "Set minReplicaCount (or minReplicas) of the autoscaler instead.",
        "command: [sh, -c, kubectl scale deployment/chat --replicas=4]",
        "kind: ScaledObject\nspec: {minReplicaCount: 4, ...}",
        _by_hand,
    ),
    Rule(
        "DURE024",
        Severity.WARNING,
        "A percentage for scaling down takes a third or half of a small workload in one step.",
        "The HPA truncates to whole pods: 25 % of 3 leaves 2, 25 % of 2 leaves 1. With few, large replicas every "
        "step is "
        "far larger than written.",
        "Use a Pods policy for small workloads, or add one with selectPolicy: Min.",
        "scaleDown:\n  policies: [{type: Percent, value: 25, periodSeconds: 60}]",
        "scaleDown:\n  policies: [{type: Pods, value: 1, periodSeconds: 60}]",
        _coarse_percent,
    ),
    Rule(
        "DURE025",
        Severity.WARNING,
        "A second threshold for scaling down is declared, which an autoscaler cannot have.",
        "Desired replicas follow one target; of several answers for the same metric the largest wins, so the lower "
        "threshold simply becomes the target.",
        "Use one target and a band below it: behavior.scaleDown.tolerance (Kubernetes 1.35 and newer; 0.57 with a "
        "target "
        "of 70 means 30), or a stabilisation window.",
        "metadata: {query: ..., threshold: '70', scaleDownThreshold: '30'}",
        "metadata: {query: ..., threshold: '70'}\n# advanced...behavior.scaleDown: {tolerance: 570m}",
        _two_thresholds,
    ),
)
