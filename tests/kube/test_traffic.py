"""Requests of a serving on a real cluster: read from its pods where they show them, unknown where they do not."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from dure.model.report import Observed
from lab.fixtures import LabFactory
from tests.fixtures.engine_metrics import VLLM
from tests.fixtures.small_world import desired, service
from tests.kube.world import FixedPlane, install_crds, member_of, spec_of, until

pytestmark = [pytest.mark.lab, pytest.mark.slow]

QUEUE = """# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="m"} 3
vllm:num_requests_waiting{model_name="n"} 2
"""


@pytest.fixture
def engine() -> Iterator[int]:
    """The metrics of an inference engine; answers its port."""

    class Metrics(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write((VLLM + QUEUE).encode())

        def log_message(self, *_: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metrics)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield int(server.server_address[1])
    server.shutdown()
    server.server_close()
    thread.join()


def test_requests_are_read_where_pods_show_them_and_unknown_elsewhere(lab_factory: LabFactory, engine: int) -> None:
    cluster = lab_factory(["test"], off={"test": {"kube-scheduler"}}, default_run_s=100_000.0, first=install_crds)[
        "test"
    ]
    cluster.add_nodes([{"group": "big", "count": 1, "gpu": {"count": 8}, "labels": {"dure.dev/pool": "big"}}])
    annotations = {"prometheus.io/scrape": "true", "prometheus.io/port": str(engine)}
    template = {"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "e", "image": "none"}]}}
    shown = replace(service("shown", replicas=2), template=json.dumps(template))
    plane = FixedPlane(desired(shown), desired(service("silent", replicas=1)))
    member = member_of(cluster, spec_of(cluster, big="big"), plane)
    member.cluster.start()
    member.runner.start()

    def seen(name: str) -> Observed | None:
        reports = plane.reports[-1:]
        return next((one for report in reports for one in report.observed if one.workload == name), None)

    def ready(name: str, replicas: int) -> bool:
        found = seen(name)
        return found is not None and found.ready == replicas

    until(lambda: ready("shown", 2) and ready("silent", 1), "three replicas")
    path = "/api/v1/namespaces/dure-search/pods"
    for pod in cluster.api.get(f"{path}?labelSelector=dure.dev/workload%3Dshown")["items"]:
        here = {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
        cluster.api.patch(f"{path}/{pod['metadata']['name']}/status", {"status": here})
    addresses = member.cluster.pods.objects
    until(lambda: sum(pod.status.pod_ip == "127.0.0.1" for pod in addresses().values()) == 2, "their addresses")
    member.reader.turn()
    member.reader.turn()
    member.runner.wake()
    until(lambda: (one := seen("shown")) is not None and one.requests is not None, "requests in a report")
    member.stop()
    known, unknown = seen("shown"), seen("silent")
    assert known is not None
    assert unknown is not None
    # Two pods, each asked twice: 11 requests each, of which 5 in buckets of at most 300 ms, the promise being 400.
    assert (known.requests, known.requests_good, known.waiting) == (22, 10, 10)
    assert (unknown.requests, unknown.requests_good, unknown.waiting) == (None, None, None)
