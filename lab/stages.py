"""KWOK's configuration: the stages of `stages.yaml` plus the node operators that a cluster's node groups ask for.

Called by `lab.cluster`. A pod says how it wants to run with annotations: `lab.dure.dev/start-seconds` (bound until
ready), `lab.dure.dev/run-seconds` (ready until ended; without it a pod of a Job takes the lab's default and any other
pod runs on) and `lab.dure.dev/exit-code`. A node labelled `lab.dure.dev/down` is NotReady.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

PREFIX = "lab.dure.dev"
RUN_SECONDS = f"{PREFIX}/run-seconds"
START_SECONDS = f"{PREFIX}/start-seconds"
EXIT_CODE = f"{PREFIX}/exit-code"
DOWN = f"{PREFIX}/down"
GROUP = f"{PREFIX}/group"
STAGES = Path(__file__).with_name("stages.yaml")
# Tests place hundreds of pods at once; the default of 4 makes the fake kubelets the bottleneck.
PARALLELISM = 16

Stage = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What a node looks like after its operator applied one value of a label; a label of None is taken away."""

    labels: Mapping[str, str | None]
    resources: Mapping[str, int]


@dataclass(frozen=True)
class Switch:
    """A stand-in for a node operator (MIG manager, device plugin): a label's value decides labels and resources."""

    group: str
    label: str
    outcomes: Mapping[str, Outcome]
    state_label: str | None
    delay_s: float


def kwok_config(default_run_s: float, switches: Iterable[Switch] = ()) -> str:
    """The text of KWOK's configuration file."""
    work = ("podPlayStage", "nodePlayStage", "nodeLease", "podsOnNodeSync")
    options = {f"{kind}Parallelism": PARALLELISM for kind in work}
    head = {"apiVersion": "config.kwok.x-k8s.io/v1alpha1", "kind": "KwokConfiguration", "options": options}
    built_in = STAGES.read_text().replace("DEFAULT_RUN_SECONDS", str(default_run_s))
    extra = [stage for number, switch in enumerate(switches) for stage in switch_stages(f"switch-{number}", switch)]
    return "---\n".join([yaml.safe_dump(head), built_in, *(yaml.safe_dump(stage) for stage in extra)])


def switch_stages(name: str, switch: Switch) -> list[Stage]:
    """Pending at once, the outcome after the delay, `failed` for a value nobody knows."""
    applied = f"{PREFIX}/applied-{switch.label.rsplit('/', 1)[-1]}"
    wanted = f'.metadata.labels["{switch.label}"]'
    open_: list[Stage] = [
        {"key": wanted, "operator": "Exists"},
        {"key": f'{wanted} == .metadata.annotations["{applied}"] | tostring', "operator": "In", "values": ["false"]},
    ]
    found = []
    if switch.state_label is not None:
        state = f'.metadata.labels["{switch.state_label}"] // ""'
        not_yet = {"key": state, "operator": "NotIn", "values": ["pending"]}
        found.append(_stage(f"{name}-pending", switch, [*open_, not_yet], [_labels({switch.state_label: "pending"})]))
        open_.append({"key": state, "operator": "In", "values": ["pending"]})
    for number, (value, outcome) in enumerate(switch.outcomes.items()):
        this = {"key": wanted, "operator": "In", "values": [value]}
        # Status first: whoever sees the state label `success` must find the resources.
        patches = [_resources(outcome.resources), _labels(_done(switch, outcome.labels, "success"), {applied: value})]
        found.append(_stage(f"{name}-{number}", switch, [*open_, this], patches, switch.delay_s))
    unknown = {"key": wanted, "operator": "NotIn", "values": list(switch.outcomes)}
    patches = [_labels(_done(switch, {}, "failed"), {applied: f'{{{{ index .metadata.labels "{switch.label}" }}}}'})]
    found.append(_stage(f"{name}-unknown", switch, [*open_, unknown], patches, switch.delay_s))
    return found


def _done(switch: Switch, labels: Mapping[str, str | None], state: str) -> dict[str, str | None]:
    return {**labels, **({switch.state_label: state} if switch.state_label else {})}


def _stage(
    name: str, switch: Switch, expressions: list[dict[str, Any]], patches: list[dict[str, Any]], delay_s: float = 0.0
) -> Stage:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": "Node"},
            "selector": {"matchLabels": {GROUP: switch.group}, "matchExpressions": expressions},
            "delay": {"durationMilliseconds": round(delay_s * 1000)},
            "next": {"patches": patches},
        },
    }


def _labels(labels: Mapping[str, str | None], annotations: Mapping[str, str] | None = None) -> dict[str, Any]:
    metadata = {"labels": dict(labels), "annotations": dict(annotations or {})}
    return {"root": "metadata", "type": "merge", "template": yaml.safe_dump(metadata)}


def _resources(resources: Mapping[str, int]) -> dict[str, Any]:
    amounts = {name: str(amount) for name, amount in resources.items()}
    status = {"capacity": amounts, "allocatable": amounts}
    return {"subresource": "status", "root": "status", "type": "merge", "template": yaml.safe_dump(status)}
