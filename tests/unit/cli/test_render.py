"""`dure render` as people call it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from dure.cli.lint import command as lint
from dure.cli.render import command
from dure.model.errors import InvalidInput


def test_a_folder_for_each_cluster_is_ready_for_kustomize(tmp_path: Path) -> None:
    assert CliRunner().invoke(command, ["all", "--out", str(tmp_path)]).exit_code == 0
    listed = yaml.safe_load((tmp_path / "cloud-us" / "kustomization.yaml").read_text("utf-8"))["resources"]
    assert listed == ["nodes.yaml", "monitoring.yaml", "tenant.yaml"]
    assert all((tmp_path / "cloud-us" / name).exists() for name in listed)


def test_a_folder_can_be_a_chart(tmp_path: Path) -> None:
    options = ["all", "--cluster", "cloud-us", "--format", "helm", "--out", str(tmp_path)]
    assert CliRunner().invoke(command, options).exit_code == 0
    chart = yaml.safe_load((tmp_path / "Chart.yaml").read_text("utf-8"))
    assert (chart["apiVersion"], chart["name"]) == ("v2", "dure-cloud-us")
    assert {path.name for path in (tmp_path / "templates").iterdir()} == {
        "nodes.yaml", "monitoring.yaml", "tenant.yaml",
    }  # fmt: skip
    assert not (tmp_path / "kustomization.yaml").exists()


def test_with_the_planes_address_the_agent_is_part_of_all() -> None:
    options = ["all", "--cluster", "cloud-us", "--plane", "https://dure.example"]
    made = list(yaml.safe_load_all(CliRunner().invoke(command, options).stdout))
    [agent] = [each for each in made if each["kind"] == "Deployment"]
    assert "https://dure.example" in str(agent)
    alone = CliRunner().invoke(command, ["agent", "--cluster", "cloud-us", "--plane", "https://dure.example"]).stdout
    assert list(yaml.safe_load_all(alone)) == made[-len(list(yaml.safe_load_all(alone))) :]


def test_an_agent_may_stream_and_believe_an_authority_of_its_own() -> None:
    options = ["agent", "--cluster", "seoul", "--plane", "grpcs://dure.example:7421", "--ca-secret", "dure-ca"]
    made = list(yaml.safe_load_all(CliRunner().invoke(command, options).stdout))
    [agent] = [each["spec"]["template"]["spec"] for each in made if each["kind"] == "Deployment"]
    [container] = agent["containers"]
    assert container["args"][-2:] == ["--ca", "/etc/dure/trust/ca.crt"]
    assert {"name": "authority", "secret": {"secretName": "dure-ca"}} in agent["volumes"]
    assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in agent["volumes"]}
    wrong = CliRunner().invoke(command, ["agent", "--cluster", "seoul", "--plane", "ftp://dure.example"])
    assert wrong.exit_code == 2
    assert "grpcs://HOST:PORT" in wrong.output


def test_several_clusters_on_standard_output_would_be_mixed_up() -> None:
    answer = CliRunner().invoke(command, ["all"])
    assert isinstance(answer.exception, InvalidInput)
    assert "--cluster" in answer.exception.remedy


def test_an_unknown_cluster_is_named() -> None:
    answer = CliRunner().invoke(command, ["nodes", "--cluster", "mars"])
    assert "mars" in str(answer.exception)


def test_braces_of_alerts_survive_a_chart() -> None:
    plain = CliRunner().invoke(command, ["monitoring", "--cluster", "cloud-kr"]).stdout
    chart = CliRunner().invoke(command, ["monitoring", "--cluster", "cloud-kr", "--format", "helm"]).stdout
    assert "{{ $labels.pod }}" in plain
    assert chart.replace('{{ "{{" }}', "<<").replace('{{ "}}" }}', ">>").count("{{") == 0


@pytest.mark.parametrize("timezone_start", [("cloud-kr", "0 0 * * 1-5"), ("cloud-us", "0 17 * * 1-5")])
def test_nine_o_clock_is_the_clusters_own(timezone_start: tuple[str, str]) -> None:
    cluster, schedule = timezone_start
    text = CliRunner().invoke(command, ["nodes", "--cluster", cluster]).stdout
    pools = [each for each in yaml.safe_load_all(text) if each["kind"] == "NodePool"]
    assert {pool["spec"]["disruption"]["budgets"][1]["schedule"] for pool in pools} == {schedule}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["serving", "--cluster", "cloud-kr"], "no workloads are given"),
        (["nodes", "--cluster", "seoul-onprem"], "the cluster needs no nodes"),
    ],
)
def test_nothing_to_print_comes_with_the_reason(options: list[str], told: str) -> None:
    answer = CliRunner().invoke(command, options)
    assert (answer.exit_code, answer.stdout) == (0, "")
    assert told in answer.stderr


@pytest.mark.parametrize("image", ["latest", "al2023@latest", "al2023", "ubuntu@v1", "al2023@"])
def test_an_image_of_nodes_has_to_be_pinned(image: str) -> None:
    answer = CliRunner().invoke(command, ["nodes", "--cluster", "cloud-kr", "--ami", image])
    assert answer.exit_code == 2
    assert "FAMILY@VERSION" in answer.stderr


@pytest.mark.parametrize("options", [["--diff", "--out", "x"], ["--kubeconfig", "x"], ["--context", "x"]])
def test_options_that_would_be_ignored_are_refused(options: list[str]) -> None:
    assert CliRunner().invoke(command, ["nodes", "--cluster", "cloud-kr", *options]).exit_code == 2


def test_what_is_rendered_for_a_whole_fleet_has_none_of_the_traps(tmp_path: Path) -> None:
    """Two clusters define the same names, and one of their spot pools is pinned to a single type on purpose."""
    fleet = Path(__file__).parents[3] / "examples" / "fleet.yaml"
    options = ["all", "--fleet", str(fleet), "--plane", "https://dure.example", "--out", str(tmp_path)]
    assert CliRunner().invoke(command, options).exit_code == 0
    answer = CliRunner().invoke(lint, ["--json", str(tmp_path)])
    assert (answer.exit_code, answer.stdout) == (0, "[]\n"), answer.output
