"""`dure up --fleet` with kubeconfigs: the same dashboard, command line and API over real clusters."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from lab.fixtures import LabFactory
from lab.rest import Json
from tests.chaos.waiting import free_port, until_done
from tests.kube.chaos import FLEET, JOB, Process

pytestmark = [pytest.mark.lab, pytest.mark.slow]


def test_up_manages_real_clusters_named_by_their_kubeconfigs(lab_factory: LabFactory, tmp_path: Path) -> None:
    lab = lab_factory(
        ["east", "west"], off={"east": {"kube-scheduler"}, "west": {"kube-scheduler"}}, default_run_s=1.0
    )
    fleet = yaml.safe_load(FLEET)
    [first] = fleet["spec"]["clusters"]
    fleet["spec"]["clusters"] = [
        {**first, "name": name, "connect": {"kubeconfig": str(lab[name].kubeconfig_path)}} for name in lab
    ]
    for name in lab:
        lab[name].add_nodes([{"group": "big", "count": 1, "gpu": {"count": 8}, "labels": {"dure.dev/pool": "big"}}])
    (tmp_path / "fleet.yaml").write_text(yaml.safe_dump(fleet))
    port, state, log = free_port(), tmp_path / "state", tmp_path / "log"
    plane = Process(log, "up", "--fleet", str(tmp_path / "fleet.yaml"), "--state", str(state), "--port", str(port))
    plane.start()
    try:
        [code] = until_done(lambda: re.findall(r"/login\?code=(\S+)", log.read_text()) or _not_yet(), "the address")
        (tmp_path / "job.yaml").write_text(JOB.replace("NAME", "fit").replace("GANG", "2"))
        until_done(lambda: all(one.get("observed_s") for one in said(state, "get", "clusters")) or _not_yet(), "both")
        dure(state, "submit", "-f", str(tmp_path / "job.yaml"))

        def done() -> list[Json]:
            jobs = said(state, "get", "workloads", "--all")
            return jobs if [one["status"].get("phase") for one in jobs] == ["done"] else _not_yet()

        until_done(done, "the job to be done")
        assert sorted(one["name"] for one in said(state, "get", "clusters")) == ["east", "west"]
        assert {one["nodes"] for one in said(state, "get", "pools")} == {1}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", follow_redirects=True, trust_env=False) as browser:
            page = browser.get("/login", params={"code": code})
            assert page.status_code == 200
            assert "<title>" in page.text
            assert browser.get("/v1/workloads/fit").json()["status"]["phase"] == "done"
    finally:
        plane.close()


def dure(state: Path, *args: str) -> str:
    """What the command line prints about this installation."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "dure", *args, "--state", str(state)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise ValueError(done.stderr)
    return done.stdout


def said(state: Path, *args: str) -> list[Json]:
    found: Any = json.loads(dure(state, *args, "-o", "json"))
    items: list[Json] = found["items"] if isinstance(found, dict) else found
    return items


def _not_yet() -> Any:
    raise ValueError("not yet")
