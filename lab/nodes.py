"""Fake GPU nodes from a small YAML: what a cluster with the vendor's operators would show of such machines.

Used by `Cluster.add_nodes`. Each group gives `count` nodes named `<group>-0`, `<group>-1`, ... with the labels of GPU
feature discovery and of the MIG manager, and answers to changes of `nvidia.com/mig.config` and
`nvidia.com/device-plugin.config` like the operators do (see `lab.stages`). Unknown keys are errors.
"""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from lab.errors import LabError
from lab.gpu import Gpu, Sharing, gpu_view
from lab.rest import Json
from lab.stages import GROUP, Outcome, Switch

MIG_CONFIG = "nvidia.com/mig.config"
PLUGIN_CONFIG = "nvidia.com/device-plugin.config"
MIG_DELAY_S = 1.0
PLUGIN_DELAY_S = 0.5


@dataclass(frozen=True)
class NodeGroup:
    """Machines of one kind. `mig` is the layout of each GPU at the start, by profile: `{3g.20gb: 2}`."""

    group: str
    count: int = 1
    instance_type: str = "lab.generic"
    region: str = "lab"
    zone: str = "lab-a"
    capacity_type: str = "on-demand"
    cpu: int | str = 32
    memory: str = "256Gi"
    pods: int = 110
    gpu: Gpu | None = None
    mig: Mapping[str, int] = field(default_factory=dict)
    mig_config: str = ""
    mig_layouts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    sharing: Sharing = field(default_factory=Sharing)
    plugin_configs: Mapping[str, Sharing] = field(default_factory=dict)
    resources: Mapping[str, int | str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()

    def nodes(self) -> Iterator[Json]:
        """The Node objects, ready to be posted."""
        return (self._node(f"{self.group}-{number}") for number in range(self.count))

    def switches(self) -> Iterator[Switch]:
        """The operators that watch these nodes."""
        if self.gpu is None:
            return
        if self.mig_layouts:
            outcomes = {name: self._mig_outcome(layout) for name, layout in self.mig_layouts.items()}
            yield Switch(self.group, MIG_CONFIG, outcomes, f"{MIG_CONFIG}.state", MIG_DELAY_S)
        if self.plugin_configs:
            outcomes = {name: _outcome(self.gpu, {}, sharing) for name, sharing in self.plugin_configs.items()}
            yield Switch(self.group, PLUGIN_CONFIG, outcomes, None, PLUGIN_DELAY_S)

    def _mig_outcome(self, layout: Mapping[str, int]) -> Outcome:
        assert self.gpu is not None
        seen = _outcome(self.gpu, layout, self.sharing)
        others = [_outcome(self.gpu, other, self.sharing) for other in (self.mig, *self.mig_layouts.values())]
        # The device plugin leaves a resource that is gone at zero; feature discovery takes its labels away.
        gone_resources = {name: 0 for other in others for name in other.resources}
        gone_labels = {name: None for other in others for name in other.labels}
        return Outcome({**gone_labels, **seen.labels}, {**gone_resources, **seen.resources})

    def _node(self, name: str) -> Json:
        amounts = {"cpu": str(self.cpu), "memory": self.memory, "pods": str(self.pods)}
        labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "node.kubernetes.io/instance-type": self.instance_type,
            "topology.kubernetes.io/region": self.region,
            "topology.kubernetes.io/zone": self.zone,
            "karpenter.sh/capacity-type": self.capacity_type,
            GROUP: self.group,
        }
        annotations: dict[str, str] = {}
        if self.gpu is not None:
            seen = _outcome(self.gpu, self.mig, self.sharing)
            labels.update({key: value for key, value in seen.labels.items() if value is not None})
            amounts.update({key: str(amount) for key, amount in seen.resources.items()})
        if self.mig_config:
            labels |= {MIG_CONFIG: self.mig_config, f"{MIG_CONFIG}.state": "success"}
            annotations["lab.dure.dev/applied-mig.config"] = self.mig_config
        amounts.update({key: str(amount) for key, amount in self.resources.items()})
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {**labels, **self.labels}, "annotations": annotations},
            "spec": {"taints": [dict(taint) for taint in self.taints]},
            "status": {"capacity": amounts, "allocatable": amounts},
        }


def node_groups(spec: str | Path | list[Json]) -> list[NodeGroup]:
    """Parse a path, YAML text, or already loaded groups."""
    if isinstance(spec, Path):
        spec = spec.read_text()
    groups = _listed(yaml.safe_load(spec)) if isinstance(spec, str) else spec
    return [_parse(group) for group in groups]


def _listed(document: object) -> list[Json]:
    if not isinstance(document, dict) or not isinstance(document.get("nodes"), list):
        raise LabError("a file of fake nodes has one key, `nodes`, with a list of groups; see lab/README.md")
    return list(document["nodes"])


def _parse(raw: Json) -> NodeGroup:
    where = f"node group {raw.get('group', raw)!r}"
    values: dict[str, Any] = dict(raw)
    _reject_unknown(NodeGroup, values, where)
    if not values.get("group"):
        raise LabError(f"{where} has no name; give it `group: NAME`")
    if values.get("gpu") is not None:
        _reject_unknown(Gpu, values["gpu"], f"gpu of {where}")
        values["gpu"] = Gpu(**values["gpu"])
    if "sharing" in values:
        values["sharing"] = _sharing(values["sharing"], where)
    configs = values.get("plugin_configs", {})
    values["plugin_configs"] = {name: _sharing(config, where) for name, config in configs.items()}
    values["taints"] = tuple(values.get("taints", ()))
    group = NodeGroup(**values)
    if group.mig_config and group.mig_config in group.mig_layouts and not group.mig:
        return NodeGroup(**{**values, "mig": group.mig_layouts[group.mig_config]})
    return group


def _sharing(raw: Json, where: str) -> Sharing:
    _reject_unknown(Sharing, raw, f"sharing of {where}")
    return Sharing(**raw)


def _reject_unknown(kind: type, raw: Json, where: str) -> None:
    known = [f.name for f in fields(kind)]
    for key in raw:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            raise LabError(f"unknown key {key!r} in {where}; {hint}")


def _outcome(gpu: Gpu, mig: Mapping[str, int], sharing: Sharing) -> Outcome:
    return Outcome(*gpu_view(gpu, mig, sharing))
