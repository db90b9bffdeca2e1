"""Everything that is rendered is taken by a real API server with the real definitions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from dure.cli.lint import command as lint
from dure.cli.render import command
from dure.files.builtin import demo_fleet
from dure.files.dump import dump_yaml
from lab.cluster import Cluster
from lab.crds import install_crds
from lab.errors import LabError
from lab.fixtures import LabFactory
from tests.unit.manifest.test_render import objects, setting

NODE_CLASS = "EC2NodeClass"


@pytest.fixture
def judge(lab_factory: LabFactory) -> Cluster:
    """An API server alone: nothing is to run, everything is to be checked."""
    off = {"a": {"kube-scheduler", "kwok", "kube-controller-manager"}}
    cluster: Cluster = lab_factory(["a"], off=off)["a"]
    names = install_crds(cluster)
    assert set(names) >= {
        "ec2nodeclasses.karpenter.k8s.aws",
        "nodepools.karpenter.sh",
        "scaledobjects.keda.sh",
        "servicemonitors.monitoring.coreos.com",
    }
    return cluster


@pytest.mark.lab
def test_kustomize_finds_every_object_in_a_rendered_folder(hub: Cluster, tmp_path: Path) -> None:
    options = ["all", "--cluster", "cloud-kr", "--plane", "https://dure.example"]
    assert CliRunner().invoke(command, [*options, "--out", str(tmp_path)]).exit_code == 0
    built = yaml.safe_load_all(hub.kubectl("kustomize", str(tmp_path)))
    plain = yaml.safe_load_all(CliRunner().invoke(command, options).stdout)
    assert sorted(map(_name, built)) == sorted(map(_name, plain))


def _name(each: dict[str, Any]) -> tuple[str, str, str]:
    return each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]


@pytest.mark.lab
def test_a_real_api_server_takes_every_rendered_object(judge: Cluster, tmp_path: Path) -> None:
    for spec in demo_fleet().clusters:
        for scaler in ("keda", "hpa"):
            made = objects(setting(spec, scaler))
            judge.apply(*(each for each in made if each["kind"] == "Namespace"))
            printed = judge.kubectl(
                "apply", "--server-side", "--dry-run=server", "-o", "name", "-f", "-", stdin=dump_yaml(made)
            )
            assert len(printed.split()) == len(made)
    broken = next(each for each in made if each["kind"] == "NodePool")
    with pytest.raises(LabError, match="template"):
        judge.apply({**broken, "spec": {"weight": 1}})
    _the_definition_of_a_node_class_has_rules_that_bite(judge, next(one for one in made if one["kind"] == NODE_CLASS))
    _diff_tells_what_is_new_and_then_nothing(judge)
    _lint_looks_at_what_is_in_the_cluster(judge)


def _the_definition_of_a_node_class_has_rules_that_bite(judge: Cluster, rendered: dict[str, Any]) -> None:
    """It is Karpenter's own, with its expressions; so that it takes what is rendered means something."""
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"amiSelectorTerms": []}, "amiSelectorTerms"),
        ({"amiSelectorTerms": [{"alias": "al2023"}]}, "alias"),
        ({"role": "r", "instanceProfile": "p"}, "exactly one of"),
        ({"subnetSelectorTerms": [{"id": "subnet-1", "tags": {"a": "b"}}]}, "mutually exclusive"),
        ({"metadataOptions": {"httpTokens": "maybe"}}, "httpTokens"),
    ]
    for change, complaint in wrong:
        with pytest.raises(LabError, match=complaint):
            judge.apply({**rendered, "spec": {**rendered["spec"], **change}})


def _diff_tells_what_is_new_and_then_nothing(judge: Cluster) -> None:
    args = ["all", "--cluster", "cloud-us", "--diff", "--kubeconfig", str(judge.kubeconfig_path)]
    before = CliRunner().invoke(command, args)
    assert before.exit_code == 1, before.output
    assert "+++ rendered/NodePool/h100-spot" in before.stdout
    rendered = CliRunner().invoke(command, ["all", "--cluster", "cloud-us"]).stdout
    judge.kubectl("apply", "--server-side", "--force-conflicts", "--field-manager=dure", "-f", "-", stdin=rendered)
    after = CliRunner().invoke(command, args)
    assert (after.exit_code, after.stdout) == (0, "")
    first = next(each for each in yaml.safe_load_all(rendered) if each["kind"] == "NodePool")
    first["spec"]["weight"] = 7
    judge.kubectl(
        "apply", "--server-side", "--force-conflicts", "--field-manager=dure", "-f", "-", stdin=yaml.safe_dump(first)
    )
    changed = CliRunner().invoke(command, args)
    assert "-  weight: 7" in changed.stdout


PAIR = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: twice, namespace: default}
spec:
  replicas: 3
  selector: {matchLabels: {app: twice}}
  template:
    metadata: {labels: {app: twice}}
    spec: {containers: [{name: main, image: registry.local/twice:1}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: one, namespace: default}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: twice}
  minReplicas: 1
  maxReplicas: 5
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: two, namespace: default}
spec:
  scaleTargetRef: {name: twice}
  triggers: [{type: cpu, metricType: Utilization, metadata: {value: "60"}}]
"""


def _lint_looks_at_what_is_in_the_cluster(judge: Cluster) -> None:
    args = ["--cluster", "--kubeconfig", str(judge.kubeconfig_path), "--json"]
    clean = CliRunner().invoke(lint, args)
    assert (clean.exit_code, json.loads(clean.stdout)) == (0, []), clean.output
    judge.kubectl("apply", "--server-side", "-f", "-", stdin=PAIR)
    found = CliRunner().invoke(lint, args)
    assert found.exit_code == 1
    rows = {(row["code"], row["file"]) for row in json.loads(found.stdout)}
    assert ("DURE004", "horizontalpodautoscalers/default/one") in rows or (
        "DURE004", "scaledobjects/default/two") in rows, rows  # fmt: skip
    assert not any(code == "DURE022" for code, _ in rows)
