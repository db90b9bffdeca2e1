"""The Job as it has to be for a chosen way: queue label, `suspend`, and the changes of its class. Pure, on a copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dure.route.accepts import QUEUE
from dure.route.situation import Changes

CHOSEN = "dure.dev/class"
ORIGIN = "dure.dev/origin"
MOVES = "dure.dev/moves"
KEY = "dure.dev/idempotency-key"
GATEWAY = "dure.dev/gateway"
PRIORITY = "kueue.x-k8s.io/priority-class"
Json = dict[str, Any]


def rewritten(
    job: Json,
    queue: str,
    class_name: str,
    changes: Changes,
    notes: Mapping[str, str] | None = None,
    marks: Mapping[str, str] | None = None,
) -> Json:
    """The Job for this queue and class. `notes` and `marks` are annotations and labels that the gateway leaves."""
    made: Json = _copied(job)
    made.pop("status", None)
    metadata = made["metadata"]
    labels = dict(metadata.get("labels") or {})
    if queue:
        labels[QUEUE] = queue
    annotations = {name: text for name, text in (metadata.get("annotations") or {}).items() if name != QUEUE}
    metadata["labels"] = {**labels, **(marks or {})}
    metadata["annotations"] = {**annotations, CHOSEN: class_name, **(notes or {})}
    if changes.name and metadata.get("name"):
        old, _, new = changes.name.partition(":")
        metadata["name"] = str(metadata["name"]).replace(old, new) if old else metadata["name"]
    if queue:
        made["spec"]["suspend"] = True
    _change_template(made["spec"]["template"], changes)
    return made


def _copied(value: Any) -> Any:
    """A manifest is a tree of objects and lists; its leaves never change."""
    if isinstance(value, dict):
        return {name: _copied(part) for name, part in value.items()}
    return [_copied(part) for part in value] if isinstance(value, list) else value


def _change_template(template: Json, changes: Changes) -> None:
    pod = template["spec"]
    if changes.node_selector:
        pod["nodeSelector"] = _merged(pod.get("nodeSelector"), changes.node_selector)
    if changes.annotations:
        template["metadata"] = dict(template.get("metadata") or {})
        template["metadata"]["annotations"] = _merged(template["metadata"].get("annotations"), changes.annotations)
    for container in [*(pod.get("initContainers") or ()), *pod["containers"]]:
        _change_resources(container, changes.resources)
    for container in pod["containers"]:
        if changes.env:
            container["env"] = _environment(container.get("env") or [], changes.env)
    if changes.image:
        pod["containers"][0]["image"] = changes.image


def _change_resources(container: Json, wanted: Mapping[str, str | int | None]) -> None:
    """A removed resource goes from requests and limits; a changed one is set where it stood, or as a request."""
    if not wanted:
        return
    resources = {
        part: dict(amounts or {}) for part, amounts in (container.get("resources") or {}).items() if part != "claims"
    }
    for name, amount in wanted.items():
        parts = [part for part in ("requests", "limits") if name in resources.get(part, {})]
        for part in parts:
            if amount is None:
                del resources[part][name]
            else:
                resources[part][name] = str(amount)
        if not parts and amount is not None:
            resources.setdefault("requests", {})[name] = str(amount)
    claims = (container.get("resources") or {}).get("claims")
    container["resources"] = {**resources, **({"claims": claims} if claims else {})}


def _environment(env: list[Json], wanted: Mapping[str, str | None]) -> list[Json]:
    kept = [one for one in env if one.get("name") not in wanted]
    return kept + [{"name": name, "value": value} for name, value in wanted.items() if value is not None]


def _merged(before: Mapping[str, Any] | None, wanted: Mapping[str, str | None]) -> Json:
    found = {**(before or {}), **wanted}
    return {name: value for name, value in found.items() if value is not None}
