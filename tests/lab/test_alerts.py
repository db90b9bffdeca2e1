"""The rendered alerts, played by promtool: each fires when it should, on the one that is to blame, and not before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from dure.files.builtin import catalogue, demo_fleet
from dure.manifest.render import render
from dure.manifest.render.alerts import DEVICES, DURE, NODES, PROMISES, SERVING, Alert, runbook
from dure.manifest.render.rules import rule
from dure.manifest.render.setting import Setting
from lab.errors import LabError
from lab.prometheus import promtool

pytestmark = [pytest.mark.lab, pytest.mark.parts("promtool")]
ALL = (*PROMISES, *SERVING, *DEVICES, *NODES, *DURE)
Json = dict[str, Any]
MIB = {"Hostname": "n1"}


def series(name: str, values: str, **labels: str) -> Json:
    inside = ",".join(f'{key}="{value}"' for key, value in labels.items())
    return {"series": f"{name}{{{inside}}}", "values": values}


def counter(name: str, per_minute: float, minutes: int, **labels: str) -> Json:
    return series(name, f"0+{per_minute}x{minutes}", **labels)


def requests(late: float, workload: str, minutes: int = 800) -> list[Json]:
    labels = {"tenant": "search", "workload": workload}
    return [
        counter("dure_serving_requests_total", 600, minutes, **labels),
        counter("dure_serving_requests_good_total", 600 * (1 - late), minutes, **labels),
    ]


def memory(gpu: str, used: int, free: int) -> list[Json]:
    return [
        series("DCGM_FI_DEV_FB_USED", f"{used}x60", gpu=gpu, **MIB),
        series("DCGM_FI_DEV_FB_FREE", f"{free}x60", gpu=gpu, **MIB),
    ]


POD = {"namespace": "a", "pod": "p"}
# For each alert: what is measured, when it fires, and whom it names. Whoever is not named must stay silent.
CASES: dict[str, tuple[list[Json], str, list[Json]]] = {
    "PromiseBurnsFast": (requests(0.9, "chat") + requests(0.5, "embed"), "90m", [
        {"tenant": "search", "workload": "chat"}]),
    "PromiseBurnsSlowly": (requests(0.4, "chat") + requests(0.2, "embed"), "12h", [
        {"tenant": "search", "workload": "chat"}]),
    "PromiseAtRisk": ([
        series("dure_watch_risk_ratio", "0.9x60", tenant="t", workload="chat"),
        series("dure_watch_risk_ratio", "0.5x60", tenant="t", workload="embed")], "30m", [
        {"tenant": "t", "workload": "chat"}]),
    "ServingQueueGrows": ([
        series("vllm:num_requests_waiting", "12x60", namespace="a", pod="p"),
        series("vllm:num_requests_waiting", "9x60", namespace="a", pod="q")], "20m", [POD]),
    "ServingCacheFull": ([
        series("vllm:kv_cache_usage_perc", "0.97x60", namespace="a", pod="p"),
        series("vllm:kv_cache_usage_perc", "0.9x60", namespace="a", pod="q")], "20m", [POD]),
    # Half full: used / free would be 1. Full for its cache on purpose, at 92 %: no alarm either.
    "GPUMemoryPressure": ([
        *memory("0", 40000, 40000), *memory("1", 73600, 6400), *memory("2", 79500, 500)], "20m", [
        {"Hostname": "n1", "gpu": "2"}]),
    # One busy device among idle ones: a mean over the fleet would hide it.
    "GPUHighUtilization": ([
        series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "0.99x90", gpu="0", **MIB),
        *(series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "0.05x90", gpu=str(n), **MIB) for n in range(1, 8))], "60m", [
        {"Hostname": "n1", "gpu": "0"}]),
    "DeviceThrottled": ([
        counter("DCGM_FI_DEV_POWER_VIOLATION", 12e6, 90, gpu="0", **MIB),
        counter("DCGM_FI_DEV_THERMAL_VIOLATION", 0, 90, gpu="0", **MIB),
        counter("DCGM_FI_DEV_POWER_VIOLATION", 1e6, 90, gpu="1", **MIB),
        counter("DCGM_FI_DEV_THERMAL_VIOLATION", 0, 90, gpu="1", **MIB)], "60m", [{"Hostname": "n1", "gpu": "0"}]),
    "DeviceError": ([
        series("DCGM_FI_DEV_XID_ERRORS", "79x60", gpu="3", **MIB),
        series("DCGM_FI_DEV_XID_ERRORS", "0x60", gpu="4", **MIB)], "10m", [{"Hostname": "n1", "gpu": "3"}]),
    "DeviceIdle": ([
        series("DCGM_FI_DEV_GPU_UTIL", "1x300", namespace="a", pod="p"),
        series("DCGM_FI_DEV_GPU_UTIL", "60x300", namespace="a", pod="q"),
        series("DCGM_FI_DEV_GPU_UTIL", "0x300", gpu="9")], "4h", [{"namespace": "a", "pod": "p"}]),
    "NodePoolNearLimit": ([
        series("karpenter_nodepools_usage", "95x60", nodepool="a", resource_type="cpu"),
        series("karpenter_nodepools_limit", "100x60", nodepool="a", resource_type="cpu"),
        series("karpenter_nodepools_usage", "5x60", nodepool="b", resource_type="cpu"),
        series("karpenter_nodepools_limit", "100x60", nodepool="b", resource_type="cpu")], "40m", [
        {"nodepool": "a", "resource_type": "cpu"}]),
    "ClusterUnreachable": ([
        series("dure_observe_reachable_bool", "1x10 0x30", cluster="a"),
        series("dure_observe_reachable_bool", "1x40", cluster="b")], "30m", [{"cluster": "a"}]),
    "DureAway": ([series("dure_place_workloads_count", "3x5 _x60", phase="held")], "40m", [{}]),
    "WorkloadsHeld": ([series("dure_place_workloads_count", "25x200", phase="held")], "2h", [{}]),
}  # fmt: skip


def played(folder: Path, rules: list[Json], given: list[Json], tests: list[Json]) -> str:
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "g", "rules": rules}]}))
    case = {"interval": "1m", "input_series": given, "alert_rule_test": tests}
    path = folder / "case.yaml"
    path.write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": [case]}))
    return promtool("test", "rules", str(path))


def test_every_alert_has_a_case() -> None:
    assert {alert.name for alert in ALL} == set(CASES)


@pytest.mark.parametrize("alert", ALL, ids=lambda alert: alert.name)
def test_an_alert_fires_on_whom_it_should_and_on_nobody_else_and_not_before_its_time(
    alert: Alert, tmp_path: Path
) -> None:
    given, at, named = CASES[alert.name]
    bare = {key: value for key, value in rule(alert).items() if key != "annotations"}
    expected = [{"exp_labels": {"severity": alert.severity, **labels}} for labels in named]
    tests: list[Json] = [
        {"eval_time": "30s", "alertname": alert.name, "exp_alerts": []},
        {"eval_time": at, "alertname": alert.name, "exp_alerts": expected},
    ]
    assert "SUCCESS" in played(tmp_path, [bare], given, tests)


def test_a_case_that_is_wrong_is_told(tmp_path: Path) -> None:
    bare = {key: value for key, value in rule(SERVING[0]).items() if key != "annotations"}
    given, at, _ = CASES["ServingQueueGrows"]
    with pytest.raises(LabError, match="FAILED"):
        played(tmp_path, [bare], given, [{"eval_time": at, "alertname": "ServingQueueGrows", "exp_alerts": []}])


def test_the_runbook_of_an_alert_names_the_one_to_blame(tmp_path: Path) -> None:
    alert = SERVING[0]
    given, at, (labels,) = CASES[alert.name]
    told = {
        "summary": "12 requests wait in a/p",
        "description": runbook(alert).replace("{{ $labels.namespace }}", "a"),
        "runbook_url": "https://dure.dev/docs/runbook#servingqueuegrows",
    }
    alerts = [{"exp_labels": {"severity": alert.severity, **labels}, "exp_annotations": told}]
    tests = [{"eval_time": at, "alertname": alert.name, "exp_alerts": alerts}]
    assert "SUCCESS" in played(tmp_path, [rule(alert)], given, tests)


def test_the_rules_of_every_demo_cluster_are_read_by_promtool_with_a_runbook_in_each(tmp_path: Path) -> None:
    fleet, known = demo_fleet(), catalogue()
    for spec in fleet.clusters:
        classes = {pool.class_name: known.accelerator(pool.class_name) for pool in spec.pools}
        objects = render(Setting(spec, classes), ("monitoring",))["monitoring"]
        (made,) = [one for one in objects if one["kind"] == "PrometheusRule"]
        path = tmp_path / f"{spec.info.name}.yaml"
        path.write_text(yaml.safe_dump(made["spec"]))
        assert "SUCCESS" in promtool("check", "rules", str(path))
        for group in made["spec"]["groups"]:
            for one in group["rules"]:
                told = one["annotations"]["description"]
                assert [line.split(":")[0] for line in told.splitlines()] == ["Cause", "Check", "Remedy"]
