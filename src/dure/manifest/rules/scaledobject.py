"""Traps of KEDA's ScaledObject: metrics that cannot scale, settings without effect, fallbacks that harm."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from dure.manifest import promql
from dure.manifest.document import Document, mapping, number, sequence, text
from dure.manifest.manifests import Manifests, Trigger
from dure.manifest.rule import Hit, Remove, Replace, Rule, SetKey, Severity

_UTILISATION = re.compile(r"util|percent|perc\b|usage|ratio", re.IGNORECASE)
# What KEDA 2.20 reads from the metadata of a prometheus trigger; secrets also as the name of a variable (...FromEnv).
_PARAMETERS = (
    "serverAddress", "query", "queryParameters", "threshold", "activationThreshold", "namespace", "customHeaders",
    "ignoreNullValues", "unsafeSsl", "timeout", "authModes", "authMode", "apiKey", "method", "keyParamName",
    "awsRegion", "awsAccessKeyID", "identityOwner",
)  # fmt: skip
_BY_VARIABLE = ("FromEnv", "FromEnvFile")
_INSTEAD = {"cortexOrgID": "set customHeaders: X-Scope-OrgID=NAME", "targetValue": "it is 'threshold'"}
_IDLE_ONLY = ("cooldownPeriod", "initialCooldownPeriod", "pollingInterval")


def _capped(manifests: Manifests) -> Iterator[Hit]:
    for trigger in manifests.triggers:
        if trigger.document.kind != "ScaledObject" or trigger.type != "prometheus" or not trigger.query:
            continue
        modifiers = mapping(mapping(trigger.document.spec.get("advanced")).get("scalingModifiers"))
        holder = modifiers if modifiers.get("formula") else trigger.data
        if (text(holder.get("metricType")) or "AverageValue") != "AverageValue":
            continue
        if promql.grows(promql.parse(trigger.query)) is False:
            yield Hit(
                trigger.document,
                (*trigger.path, "metadata", "query"),
                _ceiling(trigger),
                (_as_value(trigger),) if holder is trigger.data else (),
            )
    yield from _capped_hpa(manifests)


def _as_value(trigger: Trigger) -> SetKey | Replace:
    if "metricType" in trigger.data:
        return Replace(trigger.document, (*trigger.path, "metricType"), "Value")
    return SetKey(trigger.document, trigger.path, "metricType", "Value")


def _ceiling(trigger: Trigger) -> str:
    threshold = number(trigger.metadata.get("threshold"))
    said = "The query gives a mean or a ratio, but the target type is AverageValue"
    if not threshold or not _UTILISATION.search(trigger.query):
        return f"{said}: it is divided by the threshold, not by the number of replicas"
    top = 1.0 if threshold <= 1 else 100.0
    return (
        f"{said}: no more than ceil({top:g} / {threshold:g}) = {-int(-top // threshold)} replicas, whatever the load"
    )


def _capped_hpa(manifests: Manifests) -> Iterator[Hit]:
    for document in manifests.of("HorizontalPodAutoscaler"):
        for index, metric in enumerate(sequence(document.spec.get("metrics"))):
            for kind in ("external", "object"):
                found = mapping(mapping(metric).get(kind))
                name = text(mapping(found.get("metric")).get("name"))
                target = mapping(found.get("target"))
                if _UTILISATION.search(name) and "averageValue" in target:
                    message = f"'{name}' is a mean, but averageValue divides it by the target, not by the replicas"
                    yield Hit(document, ("spec", "metrics", index, kind, "target", "averageValue"), message)


def _silent_fallback(manifests: Manifests) -> Iterator[Hit]:
    for trigger in manifests.triggers:
        if trigger.type != "prometheus" or not mapping(trigger.document.spec.get("fallback")):
            continue
        path = (*trigger.path, "metadata")
        ignores = text(trigger.metadata.get("ignoreNullValues")).lower()
        if ignores == "false":
            if re.search(r"\bor\s+vector\s*\(", trigger.query):
                message = "`or vector()` turns a lost series into a number, so the fallback is never used"
                yield Hit(trigger.document, (*path, "query"), message)
            continue
        edit = (
            Replace(trigger.document, (*path, "ignoreNullValues"), '"false"')
            if ignores
            else SetKey(trigger.document, path, "ignoreNullValues", '"false"')
        )
        where = (*path, "ignoreNullValues") if ignores else path
        message = "A lost series counts as 0 (ignoreNullValues is true), so the fallback is never used"
        yield Hit(trigger.document, where, message, (edit,))


def _without_effect(manifests: Manifests) -> Iterator[Hit]:
    for document in manifests.of("ScaledObject"):
        least = number(document.spec.get("minReplicaCount")) or 0
        if least < 1 or "idleReplicaCount" in document.spec:
            continue
        triggers = [each for each in manifests.triggers if each.document is document]
        cached = any(text(each.data.get("useCachedMetrics")) == "true" for each in triggers)
        for key in _IDLE_ONLY:
            if key in document.spec and not (key == "pollingInterval" and cached):
                message = f"{key} has no effect with minReplicaCount {least:g}: it only rules going to and from zero"
                yield Hit(document, ("spec", key), message, (Remove(document, ("spec", key)),))
        for trigger in triggers:
            for key in trigger.metadata:
                if key.lower().startswith("activation"):
                    path = (*trigger.path, "metadata", key)
                    message = f"{key} has no effect with minReplicaCount {least:g}: it only rules waking from zero"
                    yield Hit(document, path, message, (Remove(document, path),))


def _unknown_parameter(manifests: Manifests) -> Iterator[Hit]:
    for trigger in manifests.triggers:
        if trigger.type != "prometheus":
            continue
        for key in trigger.metadata:
            path = (*trigger.path, "metadata", key)
            if key in _PARAMETERS or key.endswith(_BY_VARIABLE):
                continue
            message = f"{key} is not a parameter of the prometheus trigger and is silently ignored"
            safe = (Remove(trigger.document, path),) if key == "metricName" else ()
            yield Hit(trigger.document, path, f"{message}{_instead(key)}", safe)


def _instead(key: str) -> str:
    """What its author may have meant."""
    known = {each.lower(): each for each in _PARAMETERS}
    close = difflib.get_close_matches(key.lower(), list(known), n=1, cutoff=0.85)
    meant = _INSTEAD.get(key) or (f"it is '{known[close[0]]}'" if close else "")
    return f"; {meant}" if meant else ""


def _shrinking_fallback(manifests: Manifests) -> Iterator[Hit]:
    for document in manifests.of("ScaledObject"):
        fallback = mapping(document.spec.get("fallback"))
        most = number(document.spec.get("maxReplicaCount")) or 100.0
        replicas = number(fallback.get("replicas"))
        if replicas is None or (text(fallback.get("behavior")) or "static") != "static" or replicas >= most:
            continue
        message = f"The fallback sets {replicas:g} replicas even when more (up to {most:g}) are running and needed"
        yield Hit(document, ("spec", "fallback", "replicas"), message, (_keep_higher(document, fallback),))


def _keep_higher(document: Document, fallback: dict[str, object]) -> SetKey | Replace:
    better = "currentReplicasIfHigher"
    if "behavior" in fallback:
        return Replace(document, ("spec", "fallback", "behavior"), better)
    return SetKey(document, ("spec", "fallback"), "behavior", better)


RULES = (
    Rule(
        "DURE001",
        Severity.ERROR,
        "A mean or ratio is used with an AverageValue target, so the workload cannot grow.",
        "AverageValue asks for ceil(value / threshold) replicas: it expects a total that grows with the load. A "
        "mean of "
        "a percentage never exceeds 100, so with a threshold of 70 the answer is at most 2, whatever the load.",
        "Set metricType: Value on the trigger (replicas follow the ratio of value and threshold), or query a sum.",
        "triggers:\n- type: prometheus\n  metadata:\n    query: avg(DCGM_FI_DEV_GPU_UTIL)\n    threshold: '70'",
        "triggers:\n- type: prometheus\n  metricType: Value\n  metadata:\n    query: avg(DCGM_FI_DEV_GPU_UTIL)\n"
        "    threshold: '70'",
        _capped,
        fixable=True,
    ),
    Rule(
        "DURE003",
        Severity.ERROR,
        "A fallback is declared, but a lost metric counts as zero, so the fallback never happens.",
        "KEDA turns an empty answer of Prometheus into 0 unless ignoreNullValues is false, and calls the fallback "
        "only on "
        "errors. When the exporter dies, the workload shrinks to its minimum under full load.",
        "Set ignoreNullValues: 'false' in the trigger's metadata, and leave out `or vector(0)`.",
        "fallback: {failureThreshold: 3, replicas: 6}\ntriggers:\n- type: prometheus\n  metadata: {query: ...}",
        "fallback: {failureThreshold: 3, replicas: 6}\ntriggers:\n- type: prometheus\n"
        "  metadata: {query: ..., ignoreNullValues: 'false'}",
        _silent_fallback,
        fixable=True,
    ),
    Rule(
        "DURE019",
        Severity.WARNING,
        "pollingInterval, cooldownPeriod and activation thresholds do nothing while minReplicaCount is 1 or more.",
        "KEDA's own loop only moves a workload from zero and to zero. Between 1 and N the HPA it creates decides, "
        "with its "
        "own period and stabilisation, so the reaction time its author meant to set is not set at all.",
        "Remove them and set advanced.horizontalPodAutoscalerConfig.behavior, or scale to zero with "
        "minReplicaCount: 0.",
        "minReplicaCount: 2\ncooldownPeriod: 300",
        "minReplicaCount: 2\nadvanced:\n  horizontalPodAutoscalerConfig:\n    behavior:\n"
        "      scaleDown: {stabilizationWindowSeconds: 300}",
        _without_effect,
        fixable=True,
    ),
    Rule(
        "DURE020",
        Severity.WARNING,
        "A parameter of the prometheus trigger does not exist and is silently ignored.",
        "KEDA ignores unknown parameters of a trigger. metricName was removed: the metric is called s0-prometheus, "
        "and "
        "anything that looks for the other name finds nothing.",
        "Remove it, or correct its spelling.",
        "metadata:\n  metricName: gpu_utilization\n  query: ...",
        "metadata:\n  query: ...",
        _unknown_parameter,
        fixable=True,
    ),
    Rule(
        "DURE021",
        Severity.WARNING,
        "A static fallback shrinks a workload that is larger than the fallback.",
        "When metrics fail, behavior static sets exactly fallback.replicas. A deployment that runs 8 replicas "
        "under load "
        "loses most of them just when nobody can see it.",
        "Set fallback.behavior: currentReplicasIfHigher.",
        "maxReplicaCount: 10\nfallback: {failureThreshold: 3, replicas: 3}",
        "maxReplicaCount: 10\nfallback: {behavior: currentReplicasIfHigher, failureThreshold: 3, replicas: 3}",
        _shrinking_fallback,
        fixable=True,
    ),
)
