"""`dure up --fleet` with a kubeconfig: the same command line and API over a real cluster."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from lab.fixtures import LabFactory
from tests.kube.chaos import FLEET, JOB, Process, free_port, until_done

pytestmark = [pytest.mark.lab, pytest.mark.slow]


def test_up_manages_a_real_cluster_named_by_its_kubeconfig(lab_factory: LabFactory, tmp_path: Path) -> None:
    cluster = lab_factory(["m"], off={"m": {"kube-scheduler"}}, default_run_s=1.0)["m"]
    cluster.add_nodes([{"group": "big", "count": 1, "gpu": {"count": 8}, "labels": {"dure.dev/pool": "big"}}])
    (tmp_path / "fleet.yaml").write_text(FLEET.replace("agent: joined", f"kubeconfig: {cluster.kubeconfig_path}"))
    port, state = free_port(), tmp_path / "state"
    plane = Process(
        tmp_path / "log", "up", "--fleet", str(tmp_path / "fleet.yaml"), "--state", str(state), "--port", str(port)
    )
    plane.start()
    try:
        token = until_done(lambda: (state / "token").read_text().strip(), "the token")
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/yaml"}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, trust_env=False) as http:
            text = JOB.replace("NAME", "fit").replace("GANG", "2")
            until_done(lambda: http.post("/v1/workloads", content=text).raise_for_status(), "the job to be taken")

            def done() -> str:
                phase = str(http.get("/v1/workloads/fit").raise_for_status().json()["status"].get("phase"))
                if phase != "done":
                    raise ValueError(phase)
                return phase

            assert until_done(done, "the job to be done") == "done"
    finally:
        plane.close()
