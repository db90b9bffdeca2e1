"""Checkpoints of training on a real cluster: told by its pods where they show them, else counted by the clock."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from dure.model.report import Observed
from lab.fixtures import LabFactory
from tests.fixtures.small_world import desired, training
from tests.kube.world import FixedPlane, install_crds, member_of, spec_of, until

pytestmark = [pytest.mark.lab, pytest.mark.slow]
OFTEN_S = 3600.0


class Trainer:
    """Shows a gauge with the moment of its last checkpoint, as `examples/training` does."""

    def __init__(self) -> None:
        self.saved_s = 0.0
        trainer = self

        class Metrics(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(f"checkpoint_timestamp_seconds {trainer.saved_s}\n".encode())

            def log_message(self, *_: object) -> None:
                return

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metrics)
        self.port = int(self.server.server_address[1])


@pytest.fixture
def trainer() -> Iterator[Trainer]:
    made = Trainer()
    thread = threading.Thread(target=made.server.serve_forever, daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def test_safe_work_is_what_pods_say_and_the_clocks_only_where_they_say_nothing(
    lab_factory: LabFactory, trainer: Trainer
) -> None:
    cluster = lab_factory(["test"], off={"test": {"kube-scheduler"}}, default_run_s=100_000.0, first=install_crds)[
        "test"
    ]
    cluster.add_nodes([{"group": "big", "count": 1, "gpu": {"count": 8}, "labels": {"dure.dev/pool": "big"}}])
    annotations = {"prometheus.io/scrape": "true", "prometheus.io/port": str(trainer.port)}
    containers = [{"name": "t", "image": "none"}]
    template = json.dumps({"metadata": {"annotations": annotations}, "spec": {"containers": containers}})
    shown = replace(training("shown", gang=1, devices=1), checkpoint_s=OFTEN_S, template=template)
    noted = replace(training("noted", gang=1, devices=1), checkpoint_s=OFTEN_S)
    silent = replace(training("silent", gang=1, devices=1), checkpoint_s=1.0)
    plane = FixedPlane(desired(shown), desired(noted), desired(silent))
    member = member_of(cluster, spec_of(cluster, big="big"), plane)
    member.cluster.start()
    member.runner.start()

    def seen(name: str) -> Observed | None:
        reports = plane.reports[-1:]
        return next((one for report in reports for one in report.observed if one.workload == name), None)

    def runs(name: str) -> bool:
        found = seen(name)
        return found is not None and found.ready == 1 and found.started_s is not None

    until(lambda: all(runs(name) for name in ("shown", "noted", "silent")), "three that run")
    path = "/api/v1/namespaces/dure-vision/pods"
    [pod] = cluster.api.get(f"{path}?labelSelector=dure.dev/workload%3Dshown")["items"]
    here = {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
    cluster.api.patch(f"{path}/{pod['metadata']['name']}/status", {"status": here})
    until(lambda: any(one.status.pod_ip for one in member.cluster.pods.objects().values()), "its address")

    def told(name: str, moment_s: float) -> bool:
        member.reader.turn()
        member.runner.wake()
        found = seen(name)
        return found is not None and found.saved_s == moment_s

    until(lambda: told("shown", 0.0), "that there is none yet")
    first = seen("shown")
    assert first is not None
    assert first.done_s == 0.0
    until(lambda: time.time() > (first.started_s or 0.0) + 2.0, "some work")
    trainer.saved_s = saved_s = round(time.time(), 1)
    until(lambda: told("shown", saved_s), "the checkpoint that it shows")
    [other] = cluster.api.get(f"{path}?labelSelector=dure.dev/workload%3Dnoted")["items"]
    note = {"metadata": {"annotations": {"dure.dev/checkpointed": str(saved_s)}}}
    cluster.api.patch(f"{path}/{other['metadata']['name']}", note)
    until(lambda: told("noted", saved_s), "the checkpoint that is noted on it")
    member.stop()
    for name in ("shown", "noted"):
        found = seen(name)
        assert found is not None
        assert found.started_s is not None
        assert found.done_s == pytest.approx(saved_s - found.started_s), (
            "by the clock there would be none for an hour"
        )
    clock = seen("silent")
    assert clock is not None
    assert clock.saved_s is None
    assert clock.done_s > 0.0
