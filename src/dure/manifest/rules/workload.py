"""Traps in pods that use accelerators: tolerations, requests, hooks, grace, completeness."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dure.manifest.document import Document, Json, Path, mapping, sequence, text
from dure.manifest.manifests import Manifests
from dure.manifest.pods import PodSite, split
from dure.manifest.quantity import quantity
from dure.manifest.rule import Hit, Rule, Severity

_SERVERS = re.compile(r"vllm|tritonserver|text-generation-inference|sglang|tensorrt|lmdeploy")
_VLLM_ROUTES = ("/health", "/ping", "/version", "/load", "/metrics", "/v1")
_NOTICE_S = 120.0
_MARGIN_S = 15.0
_URL = re.compile(r"(?:https?://)?(?:localhost|127\.0\.0\.1|\$\{?[A-Z_]+\}?)(?::[0-9]+)?(/[^\s'\"]*)")


def _no_way_in(manifests: Manifests) -> Iterator[Hit]:
    for site in manifests.pods:
        if site.document.kind == "DaemonSet":
            continue
        fitting = [pool for pool in manifests.gpu_pools if pool.takes(site)]
        aimed = [pool for pool in fitting if _aims_at(site, pool.name, {**pool.labels})]
        wants = site.claims_devices or bool(_SERVERS.search(site.images))
        if fitting and wants and all(pool.missing(site) for pool in fitting):
            pool = min(fitting, key=lambda each: len(each.missing(site)))
            taints = ", ".join(f"{taint.key}={taint.value}:{taint.effect}" for taint in pool.missing(site))
            message = f"It does not tolerate {taints} of NodePool '{pool.name}', so it stays pending"
            yield Hit(site.document, (*site.spec_path, "tolerations"), message)
        if not site.claims_devices and (aimed or _tolerates_gpu(site) or _SERVERS.search(site.images)):
            yield Hit(site.document, (*site.spec_path, "containers"), "No container asks for a GPU, so it gets none")


def _aims_at(site: PodSite, pool: str, labels: Json) -> bool:
    selects = site.selects()
    if pool in selects.get("karpenter.sh/nodepool", ()):
        return True
    return any(key in labels and text(labels[key]) in values for key, values in selects.items())


def _tolerates_gpu(site: PodSite) -> bool:
    return any(each.key.startswith(("nvidia.com/gpu", "amd.com/gpu")) for each in site.tolerations)


def _hooks(site: PodSite) -> Iterator[tuple[Path, Json, Json]]:
    for path, container in site.containers():
        hook = mapping(mapping(container.get("lifecycle")).get("preStop"))
        if hook:
            yield (*path, "lifecycle", "preStop"), container, hook


def _script(hook: Json) -> str:
    return " ".join(text(each) for each in sequence(mapping(hook.get("exec")).get("command")))


def _deaf_drain(manifests: Manifests) -> Iterator[Hit]:
    for site in manifests.pods:
        for path, container, hook in _hooks(site):
            said = _script(hook)
            route = text(mapping(hook.get("httpGet")).get("path"))
            routes = [route] if route else _URL.findall(said)
            vllm = "vllm" in text(container.get("image")) or "vllm" in str(container.get("command"))
            wrong = [each for each in routes if vllm and not each.startswith(_VLLM_ROUTES)]
            if wrong:
                yield Hit(site.document, path, f"vLLM has no route {wrong[0]}; the hook drains nothing")
            elif "curl" in said and not _fails_loudly(said):
                yield Hit(
                    site.document, path, "curl without -f succeeds on any answer, so a wrong route goes unnoticed"
                )


def _fails_loudly(script: str) -> bool:
    words = split(script) + [word for line in split(script) for word in split(line)]
    flags = [word for word in words if word.startswith("-")]
    return any(word.startswith("--fail") or (not word.startswith("--") and "f" in word) for word in flags)


def _no_margin(manifests: Manifests) -> Iterator[Hit]:
    budgets = manifests.of("PodDisruptionBudget")
    for site in manifests.pods:
        path: Path = (*site.spec_path, "terminationGracePeriodSeconds")
        sleep_s = max((_sleep(_script(hook), hook) for _, _, hook in _hooks(site)), default=0.0)
        if sleep_s and sleep_s >= site.grace_s:
            message = (
                f"preStop sleeps {sleep_s:g} s of {site.grace_s:g} s grace: the container is killed inside of it"
            )
            yield Hit(site.document, path, message)
        elif site.on_spot and site.grace_s > _NOTICE_S - _MARGIN_S:
            more = "" if budgets else "; nor is there a PodDisruptionBudget"
            message = (
                f"{site.grace_s:g} s of grace leave no margin within the {_NOTICE_S:g} s of a spot notice for "
                f"noticing, draining and removing endpoints{more}"
            )
            yield Hit(site.document, path, message)


def _sleep(script: str, hook: Json) -> float:
    found = [float(each) for each in re.findall(r"\bsleep\s+([0-9]+)", script)]
    given = mapping(hook.get("sleep")).get("seconds")
    return sum(found) + (float(given) if isinstance(given, int | float) else 0.0)


def _incomplete(manifests: Manifests) -> Iterator[Hit]:
    for document in manifests.documents:
        if "groups" in document.data and "spec" not in document.data:
            continue
        if not document.kind or not text(document.data.get("apiVersion")):
            yield Hit(document, (), "apiVersion or kind is missing: a fragment, which cannot be applied")
    for document in manifests.of("Deployment", "StatefulSet", "DaemonSet"):
        if document.group != "apps":
            continue
        yield from _incomplete_workload(document)
    for site in manifests.pods:
        for path, container in site.containers(init=True):
            if not text(container.get("image")):
                name = text(container.get("name"))
                yield Hit(site.document, path, f"Container '{name}' has no image; the API server refuses it")
        serving = site.document.kind in ("Deployment", "StatefulSet") and site.devices
        probed = any("readinessProbe" in each or "startupProbe" in each for _, each in site.containers())
        if serving and not probed:
            message = "No readiness probe: requests arrive while the model is still loading"
            yield Hit(site.document, (*site.spec_path, "containers"), message, severity=Severity.WARNING)


def _incomplete_workload(document: Document) -> Iterator[Hit]:
    selector = mapping(mapping(document.spec.get("selector")).get("matchLabels"))
    if not mapping(document.spec.get("selector")):
        yield Hit(document, ("spec",), "spec.selector is missing; the API server refuses it")
    labels = mapping(document.at(("spec", "template", "metadata", "labels")))
    if not mapping(document.spec.get("template")):
        yield Hit(document, ("spec",), "spec.template is missing; the API server refuses it")
    elif not labels:
        yield Hit(document, ("spec", "template"), "The pod template has no labels; the API server refuses it")
    elif selector and not selector.items() <= labels.items():
        yield Hit(document, ("spec", "selector"), "The selector does not match the labels of the pod template")


def _burstable(manifests: Manifests) -> Iterator[Hit]:
    for site in manifests.pods:
        for path, container in site.containers():
            resources = mapping(container.get("resources"))
            requests, limits = mapping(resources.get("requests")), mapping(resources.get("limits"))
            devices = [name for name in {**requests, **limits} if name in site.devices]
            for name in sorted(devices):
                if name in requests and quantity(requests[name]) != quantity(limits.get(name)):
                    message = f"The request of {name} must equal its limit; the API server refuses it"
                    yield Hit(site.document, (*path, "resources"), message, severity=Severity.ERROR)
            asked, most = quantity(requests.get("memory")), quantity(limits.get("memory"))
            if devices and asked is not None and most is not None and asked < most:
                message = (
                    f"Memory request {requests['memory']} is below its limit {limits['memory']}: may be killed first"
                )
                yield Hit(site.document, (*path, "resources", "requests", "memory"), message)


RULES = (
    Rule(
        "DURE010",
        Severity.ERROR,
        "A pod cannot reach the GPU nodes that are meant for it, or gets no GPU there.",
        "Every taint of a pool has to be tolerated, not only the one for spot; and a container that asks for no "
        "nvidia.com/gpu sees no device, however the node is called.",
        "Tolerate all taints of the pool and set resources.limits nvidia.com/gpu.",
        "tolerations: [{key: karpenter.sh/capacity-type, value: spot, effect: NoSchedule}]\n"
        "containers: [{name: server, image: ...}]",
        "tolerations:\n- {key: karpenter.sh/capacity-type, value: spot, effect: NoSchedule}\n"
        "- {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}\n"
        "containers: [{name: server, image: ..., resources: {limits: {nvidia.com/gpu: 1}}}]",
        _no_way_in,
    ),
    Rule(
        "DURE013",
        Severity.ERROR,
        "The preStop hook calls a route that does not exist, or would not notice.",
        "vLLM has no /drain: the answer is 404, curl without -f calls that success, and after the hook SIGTERM "
        "aborts every "
        "request in flight.",
        "Sleep about 15 s while endpoints are removed, and start vLLM with --shutdown-timeout (grace minus 15).",
        "preStop: {exec: {command: [sh, -c, 'curl -X POST localhost:8000/drain; sleep 90']}}",
        "args: [--shutdown-timeout=75]\nlifecycle: {preStop: {sleep: {seconds: 15}}}",
        _deaf_drain,
    ),
    Rule(
        "DURE014",
        Severity.ERROR,
        "The grace period does not fit: longer than a spot notice allows, or shorter than the hook in it.",
        "A spot node is gone two minutes after the notice, which has to be received and acted upon first. What "
        "still runs "
        "then is lost.",
        "Keep grace at 105 s or less on spot, longer than the preStop hook, and add a PodDisruptionBudget.",
        "nodeSelector: {karpenter.sh/capacity-type: spot}\nterminationGracePeriodSeconds: 120",
        "nodeSelector: {karpenter.sh/capacity-type: spot}\nterminationGracePeriodSeconds: 90",
        _no_margin,
    ),
    Rule(
        "DURE015",
        Severity.ERROR,
        "An object is incomplete: no kind, selector, labels, image or probes.",
        "The API server refuses it, or (without a readiness probe) traffic reaches a server that is still loading "
        "weights.",
        "Complete it: selector, matching labels, image, readiness probe.",
        "kind: Deployment\nspec:\n  template: {spec: {containers: [{name: server}]}}",
        "kind: Deployment\nspec:\n  selector: {matchLabels: {app: chat}}\n  template:\n"
        "    metadata: {labels: {app: chat}}\n    spec: {containers: [{name: server, image: ..., readinessProbe: "
        "...}]}",
        _incomplete,
    ),
    Rule(
        "DURE033",
        Severity.WARNING,
        "A GPU pod may be killed for memory, or asks for unequal GPUs.",
        "With a memory request below the limit the pod is burstable: under pressure the kernel kills it before "
        "others, and "
        "minutes of model load are lost. Requests and limits of devices must be equal.",
        "Make the memory request equal to the limit.",
        "requests: {memory: 32Gi}\nlimits: {memory: 64Gi, nvidia.com/gpu: 1}",
        "requests: {memory: 64Gi}\nlimits: {memory: 64Gi, nvidia.com/gpu: 1}",
        _burstable,
    ),
)
