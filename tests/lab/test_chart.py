"""The chart in the hands of the real Helm, and its objects in front of a real API server."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from dure.adapters.kube import rbac
from lab.build import ensure
from lab.cluster import Cluster
from lab.crds import install_crds
from lab.errors import LabError
from lab.fixtures import LabFactory

pytestmark = [pytest.mark.lab, pytest.mark.parts("helm")]
CHART = Path(__file__).resolve().parents[2] / "deploy/chart/dure"
EXAMPLE = CHART.parent / "example-values.yaml"
Json = dict[str, Any]


def helm(*args: str, kubeconfig: Path | None = None, folder: Path) -> subprocess.CompletedProcess[str]:
    """Its own caches and configuration are not the machine's."""
    environment = {**os.environ, "HOME": str(folder), "KUBECONFIG": str(kubeconfig or folder / "none")}
    return subprocess.run(
        [str(ensure(["helm"])["helm"] / "helm"), *args], env=environment, capture_output=True, text=True
    )


def template(folder: Path, *options: str) -> list[Json]:
    done = helm("template", "dure", str(CHART), "-n", "dure-system", *options, folder=folder)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def key(each: Json) -> tuple[str, str]:
    return each["kind"], each["metadata"]["name"]


def test_the_agent_that_helm_makes_is_the_one_that_render_prints(tmp_path: Path) -> None:
    values = yaml.safe_load(EXAMPLE.read_text("utf-8"))["agent"]
    found = {key(each): each for each in template(tmp_path, "-f", str(EXAMPLE))}
    image = f"dure:{yaml.safe_load((CHART / 'Chart.yaml').read_text('utf-8'))['appVersion']}"
    for wanted in rbac.manifests(values["cluster"], values["plane"], image, values["caSecret"]):
        if wanted["kind"] == "Namespace":
            continue
        made = found[key(wanted)]
        if made["kind"] == "CustomResourceDefinition":
            assert made["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
        assert made == wanted


def test_the_plane_is_confined_as_the_agent_is(tmp_path: Path) -> None:
    found = {key(each): each for each in template(tmp_path, "-f", str(EXAMPLE))}
    pod = found["Deployment", "dure-plane"]["spec"]["template"]["spec"]
    assert pod["securityContext"] == rbac.NOBODY
    assert [one["securityContext"] for one in pod["containers"]] == [rbac.CONFINED]
    assert pod["automountServiceAccountToken"] is False


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "plane.fleet is empty"),
        (["--set", "plane.fleet=x", "--set", "plane.replcas=3"], "replcas"),
        (["--set", "plane.fleet=x", "--set", "plane.grpc.enabled=true"], "needs plane.tls.secret"),
        (["--set", "plane.enabled=false", "--set", "agent.enabled=true"], "agent.cluster"),
        (["--set", "plane.fleet=x", "--set", "plane.oidc.issuer=https://a.example"], "plane.oidc.secret"),
    ],
)
def test_values_that_cannot_work_are_refused_with_a_sentence(options: list[str], told: str, tmp_path: Path) -> None:
    done = helm("template", "dure", str(CHART), "-n", "dure-system", *options, folder=tmp_path)
    assert done.returncode != 0
    assert told in done.stderr


def test_a_real_api_server_takes_every_object_and_helm_installs_and_removes_them(
    lab_factory: LabFactory, tmp_path: Path
) -> None:
    off = {"a": {"kube-scheduler", "kwok", "kube-controller-manager"}}
    judge: Cluster = lab_factory(["a"], off=off)["a"]
    install_crds(judge)
    judge.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "dure-system"}})
    least = ["--set-file", f"plane.fleet={CHART.parents[2] / 'examples/fleet.yaml'}"]
    for options in (["-f", str(EXAMPLE)], least):
        made = template(tmp_path, *options)
        text = yaml.safe_dump_all(made)
        printed = judge.kubectl("apply", "--server-side", "--dry-run=server", "-o", "name", "-f", "-", stdin=text)
        assert len(printed.split()) == len(made) >= 6
    broken = next(each for each in made if each["kind"] == "Deployment")
    with pytest.raises(LabError, match="selector"):
        judge.kubectl(
            "apply", "--server-side", "--dry-run=server", "-f", "-", stdin=json.dumps({**broken, "spec": {}})
        )
    _installed_and_removed(judge, tmp_path)


def _installed_and_removed(judge: Cluster, folder: Path) -> None:
    def call(*args: str) -> str:
        done = helm(*args, "-n", "dure-system", kubeconfig=judge.kubeconfig_path, folder=folder)
        assert done.returncode == 0, done.stderr
        return done.stdout

    call("install", "dure", str(CHART), "-f", str(EXAMPLE))
    agents = json.loads(judge.kubectl("get", "deployment", "dure-agent", "-n", "dure-system", "-o", "json"))
    assert agents["spec"]["replicas"] == rbac.REPLICAS
    call("upgrade", "dure", str(CHART), "-f", str(EXAMPLE), "--set", "plane.replicas=2")
    plane = json.loads(judge.kubectl("get", "deployment", "dure-plane", "-n", "dure-system", "-o", "json"))
    assert plane["spec"]["replicas"] == 2
    call("uninstall", "dure")
    assert judge.kubectl("get", "deployment", "-n", "dure-system", "-o", "name") == ""
    kept = judge.kubectl("get", "crd", "-o", "name")
    assert "placements.dure.dev" in kept, "what workloads are kept in outlives the release"
