"""What `dure render` makes scales on the real KEDA as Dure's engine says; what guides show does not: lint knows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from dure.cli.lint import command as lint
from dure.scale.keda.spec import generated_hpa
from lab.fixtures import LabFactory
from lab.metrics_api import MetricsApi, Question
from lab.rest import Json
from tests.kube.keda_agreement import SHORT, WHOLE, play, summary
from tests.kube.keda_world import LAB_FLAGS, NAMESPACE, NEEDED, KedaWorld, keda_world, of, rendered, scaled_of
from tests.kube.world import until

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.parts(*NEEDED)]

GUIDE = Path(__file__).parents[1] / "scenario" / "guide"
HPAS = f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers"
# Enough looks of an autoscaler that would double each time.
LOOKS = 8


def test_keda_takes_the_path_of_the_engine_and_the_guides_object_none(
    lab_factory: LabFactory, tmp_path: Path
) -> None:
    lab = lab_factory(["test"], flags={"test": LAB_FLAGS})
    with keda_world(lab["test"], tmp_path / "world") as world:
        objects = rendered(tmp_path)
        found = summary(play(world, objects, SHORT))
        assert found["differences"] == []
        assert found["replicas"] == [2, 4, 8, 10]
        assert found["fallbacks"] > 0, "Prometheus was gone for longer than the threshold"
        the_generated_autoscaler_is_foreseen(world, of("ScaledObject", objects))
        world.cluster.kubectl("delete", "-n", NAMESPACE, "scaledobject,deployment", "--all")
        the_guides_object_does_not_scale_until_lint_has_mended_it(world, tmp_path / "guide")


@pytest.mark.full
def test_keda_takes_the_whole_path_of_the_engine(lab_factory: LabFactory, tmp_path: Path) -> None:
    lab = lab_factory(["test"], flags={"test": LAB_FLAGS})
    with keda_world(lab["test"], tmp_path / "world") as world:
        found = summary(play(world, rendered(tmp_path), WHOLE))
    print(json.dumps(found))
    assert found["differences"] == []
    assert found["replicas"] == [2, 4, 8, 10, 9, 8, 7, 10]


@pytest.mark.full
def test_keda_alone_brings_the_rendered_service_to_what_its_load_needs(
    lab_factory: LabFactory, tmp_path: Path
) -> None:
    """Nothing of the test stands between the autoscaler and KEDA, or between KEDA and Prometheus' name."""
    lab = lab_factory(["test"], flags={"test": LAB_FLAGS})
    with keda_world(lab["test"], tmp_path / "world") as world:
        objects = rendered(tmp_path)
        world.cluster.apply(*objects)
        until(lambda: world.deployment()[2] == 2, "the smallest number of pods")
        query = of("ScaledObject", objects)["spec"]["triggers"][0]["metadata"]["query"]
        world.show(60, query)
        until(lambda: world.deployment()[2] == 10, "the largest number of pods for 60 requests at 5 each")


def the_generated_autoscaler_is_foreseen(world: KedaWorld, manifest: Json) -> None:
    real = world.cluster.api.get(f"{HPAS}/keda-hpa-chat")["spec"]
    mirror = generated_hpa(scaled_of(manifest))
    assert (real["minReplicas"], real["maxReplicas"]) == (mirror.min_replicas, mirror.max_replicas)
    [metric], [mirrored] = real["metrics"], mirror.metrics
    assert metric["external"]["metric"]["name"] == mirrored.name
    assert metric["external"]["target"] == {"type": "AverageValue", "averageValue": "5"}


def the_guides_object_does_not_scale_until_lint_has_mended_it(world: KedaWorld, folder: Path) -> None:
    shutil.copytree(GUIDE, folder)
    world.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "dure-monitoring"}})
    asked: list[Question] = []

    def answer(question: Question) -> list[Json] | None:
        asked.append(question)
        return world.ask_keda(question.metric, question.selector)

    with MetricsApi(world.cluster, answer):
        _put_in(world, folder)
        assert _looked(world, asked) == (2, ["0"]), "its query finds nothing, which KEDA takes for zero"
        codes = _lint(folder, "--json")
        assert {"DURE001", "DURE002", "DURE003"} <= {row["code"] for row in codes if row["severity"] == "error"}
        assert any("no more than ceil(100 / 70) = 2 replicas" in row["message"] for row in codes)
        _lint(folder, "--fix", "--select", "DURE002")
        _put_in(world, folder)
        assert _looked(world, asked) == (2, ["95"]), "a mean of 95 % for a target of 70 asks for two, for ever"
        _lint(folder, "--fix")
        _put_in(world, folder)
        until(lambda: world.deployment("model-a")[0] == 8, "the mended object scales to its maximum")


def _put_in(world: KedaWorld, folder: Path) -> None:
    """All three files as they are; the devices are at 95 %, scraped as the monitor says."""
    documents = [one for path in sorted(folder.glob("*.yaml")) for one in yaml.safe_load_all(path.read_text())]
    world.cluster.apply(*documents)
    until(lambda: world.deployment("model-a")[2] >= 2, "the model's pods")
    [endpoint] = of("ServiceMonitor", documents)["spec"]["endpoints"]
    world.report_devices(95, world.pods("model-a"), honoured=endpoint.get("honorLabels", False))


def _looked(world: KedaWorld, asked: list[Question]) -> tuple[int, list[str]]:
    """After some looks of the autoscaler: replicas, and what KEDA answers now."""
    before = len(asked)
    until(lambda: len(asked) >= before + LOOKS, f"{LOOKS} looks of the autoscaler")
    items = world.ask_keda(asked[-1].metric, asked[-1].selector) or []
    return world.deployment("model-a")[0], [one["value"] for one in items]


def _lint(folder: Path, *options: str) -> list[Json]:
    answer = CliRunner().invoke(lint, [*options, str(folder)])
    assert answer.exit_code in (0, 1), answer.output
    rows: list[Json] = json.loads(answer.stdout) if "--json" in options else []
    return rows
