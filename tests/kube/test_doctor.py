"""`dure doctor` asks a real API server, with RBAC on, whether agent and gateway may do what they have to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from dure.adapters.kube import rbac
from dure.cli.doctor import command as doctor
from dure.cli.render import command as render
from lab.cluster import OPTIONAL, Cluster
from lab.lab import Lab
from tests.kube.world import until

pytestmark = [pytest.mark.lab, pytest.mark.slow]

AGENT = ["agent", "--cluster", "test", "--plane", "https://dure.example", "--ca-secret", "dure-ca"]
ROLES = "/apis/rbac.authorization.k8s.io/v1"
Found = list[dict[str, str]]


@pytest.fixture(scope="module")
def bare() -> Iterator[Cluster]:
    """An API server alone: the authorizer is all that is asked."""
    with Lab(["test"], off={"test": set(OPTIONAL)}) as lab:
        yield lab["test"]


@pytest.fixture
def cluster(bare: Cluster) -> Iterator[Cluster]:
    """With both accounts as they are printed; gone again afterwards, so that every test may change them."""
    bare.kubectl("apply", "-f", "-", stdin=printed(*AGENT))
    bare.kubectl("apply", "-f", "-", stdin=printed("gateway"))
    yield bare
    for account in ("dure-agent", "dure-gateway"):
        bare.api.delete(f"/api/v1/namespaces/dure-system/serviceaccounts/{account}")


def printed(*words: str) -> str:
    made = CliRunner().invoke(render, list(words))
    assert made.exit_code == 0, made.output
    return made.stdout


def look(folder: Path, kubeconfig: Path) -> Found:
    """What it finds out about rights; the answers of a server lag a moment behind a role that was changed."""
    done = CliRunner().invoke(doctor, ["--kubeconfig", str(kubeconfig), "--json", "--state", str(folder)])
    found: Found = [one for one in json.loads(done.stdout) if one["check"] in ("rbac", "kube")]
    assert all(one["remedy"] for one in found if one["level"] != "ok")
    return found


def wrong(found: Found) -> list[tuple[str, str]]:
    return [(one["level"], one["message"]) for one in found if one["level"] != "ok"]


def until_wrong(folder: Path, cluster: Cluster, expected: list[tuple[str, str]]) -> Found:
    seen: list[Found] = []

    def agrees() -> bool:
        seen.append(look(folder, cluster.kubeconfig_path))
        return wrong(seen[-1]) == expected

    until(agrees, f"{expected}", 30.0)
    return seen[-1]


def take_away(cluster: Cluster, path: str, resource: str, verb: str) -> None:
    role: dict[str, Any] = cluster.api.get(path)
    [rule] = [one for one in role["rules"] if resource in one["resources"] and verb in one["verbs"]]
    rule["verbs"] = [one for one in rule["verbs"] if one != verb]
    role["rules"] = [one for one in role["rules"] if one["verbs"]]
    cluster.api.put(path, role)


def test_the_printed_accounts_may_do_everything(cluster: Cluster, tmp_path: Path) -> None:
    found = until_wrong(tmp_path, cluster, [])
    said = [one["message"] for one in found if one["check"] == "rbac"]
    assert any("dure-system/dure-agent may do all that the agent does" in one for one in said)
    assert any("dure-system/dure-gateway may do all that the gateway does" in one for one in said)
    assert found[0]["message"].startswith("cluster: Kubernetes v1.")


def test_a_verb_taken_out_of_the_role_is_named_with_the_command_that_brings_it_back(
    cluster: Cluster, tmp_path: Path
) -> None:
    take_away(cluster, f"{ROLES}/clusterroles/dure-agent", "nodes", "patch")
    told = ("error", "cluster: dure-system/dure-agent may not patch nodes")
    [finding] = [one for one in until_wrong(tmp_path, cluster, [told]) if one["level"] == "error"]
    command, _, rest = finding["remedy"].partition(" | ")
    assert command == f"dure render {' '.join(AGENT)}"
    kubectl, _, rule = rest.partition("\nor add to the ClusterRole dure-agent: ")
    assert kubectl == f"kubectl --kubeconfig {cluster.kubeconfig_path} apply -f -"
    assert json.loads(rule) == {"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]}
    cluster.kubectl("apply", "-f", "-", stdin=printed(*command.split()[2:]))
    until_wrong(tmp_path, cluster, [])


def test_the_rule_that_is_told_is_enough(cluster: Cluster, tmp_path: Path) -> None:
    path = f"{ROLES}/clusterroles/dure-agent"
    take_away(cluster, path, "placements/status", "patch")
    message = "may not patch placements/status, patch vnodepools/status"
    found = until_wrong(tmp_path, cluster, [("error", f"cluster: dure-system/dure-agent {message}")])
    [remedy] = [one["remedy"] for one in found if one["level"] == "error"]
    rule = json.loads(remedy.partition("ClusterRole dure-agent: ")[2])
    role: dict[str, Any] = cluster.api.get(path)
    cluster.api.put(path, {**role, "rules": [*role["rules"], rule]})
    until_wrong(tmp_path, cluster, [])


def test_rights_on_named_objects_of_its_own_namespace_are_asked_for_there(cluster: Cluster, tmp_path: Path) -> None:
    take_away(cluster, f"{ROLES}/namespaces/dure-system/roles/dure-agent", "secrets", "get")
    told = "cluster: dure-system/dure-agent may not get secrets dure-agent in dure-system"
    [one] = [one for one in until_wrong(tmp_path, cluster, [("error", told)]) if one["level"] == "error"]
    rule = json.loads(one["remedy"].partition("\nor add to the Role dure-agent: ")[2])
    assert rule == {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["dure-agent"]}


def test_a_binding_that_is_gone_takes_every_right_with_it(cluster: Cluster, tmp_path: Path) -> None:
    cluster.api.delete(f"{ROLES}/clusterrolebindings/dure-agent")
    expected = len(rbac.rules())
    until(lambda: len(wrong(look(tmp_path, cluster.kubeconfig_path))) == expected, "a finding for each rule", 30.0)


def test_what_the_gateway_lacks_is_an_error_and_what_it_can_do_without_a_warning(
    cluster: Cluster, tmp_path: Path
) -> None:
    path = f"{ROLES}/clusterroles/dure-gateway"
    take_away(cluster, path, "jobs", "delete")
    take_away(cluster, path, "workloadpriorityclasses", "create")
    label = "cluster: dure-system/dure-gateway may not"
    told = [("error", f"{label} delete jobs"), ("warning", f"{label} create workloadpriorityclasses")]
    found = until_wrong(tmp_path, cluster, told)
    [first] = [one["remedy"] for one in found if one["level"] == "error"]
    assert first.startswith("dure render gateway | kubectl ")
    [spare] = [one for one in found if "workloads/status" in one["message"]]
    assert spare["level"] == "ok"
    assert "--dispatch" in spare["remedy"]


def test_the_agents_own_account_may_ask_about_itself(cluster: Cluster, tmp_path: Path) -> None:
    take_away(cluster, f"{ROLES}/clusterroles/dure-agent", "pods", "watch")
    config = cluster.kubeconfig_of("dure-system", "dure-agent")
    told = [("error", "cluster: dure-system/dure-agent may not watch pods")]
    until(lambda: wrong(look(tmp_path, config)) == told, "the verb that is gone", 30.0)


def test_an_account_without_rights_is_told_so_and_nothing_is_claimed(cluster: Cluster, tmp_path: Path) -> None:
    found = look(tmp_path, cluster.kubeconfig_for("nobody"))
    assert [one["level"] for one in found] == ["ok", "warning"]
    assert "administrator" in found[1]["remedy"]


def test_without_accounts_of_its_own_the_kubeconfigs_account_is_judged(bare: Cluster, tmp_path: Path) -> None:
    found = look(tmp_path, bare.kubeconfig_path)
    assert wrong(found) == []
    assert found[-1]["message"] == "cluster: this account may do all that an agent does"
    reader = yaml.safe_dump({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "sees-accounts"},
        "rules": [{"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["get"]}],
    })  # fmt: skip
    bare.kubectl("apply", "-f", "-", stdin=reader)
    bare.kubectl("create", "clusterrolebinding", "sees", "--clusterrole=sees-accounts", "--user=reader")
    config = bare.kubeconfig_for("reader")
    expected = len(rbac.rules()) + len(rbac.home_rules())
    until(lambda: len(wrong(look(tmp_path, config))) == expected, "a finding for each rule", 30.0)
    assert {level for level, _ in wrong(look(tmp_path, config))} == {"warning"}
