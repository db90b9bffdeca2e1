"""A whole Dure in trouble: a full disk, no file left to open, a clock that was set back. It says so, and stays."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.chaos.waiting import until_done
from tests.e2e.conftest import Up

pytestmark = pytest.mark.slow

SIZE = 24 * 1024 * 1024
JOB = """
apiVersion: dure.dev/v1alpha1
kind: Workload
metadata: {name: NAME, tenant: vision}
spec: {type: batch, classes: [{name: h100-80gb-sxm}], demand: {devices: 1}, duration: 90d}
"""


class Caller:
    """Submits over one connection that stays open, and remembers what was accepted."""

    def __init__(self, server: Up) -> None:
        token = (server.state / "token").read_text().strip()
        self._http = httpx.Client(
            base_url=server.url, headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=60.0
        )
        self.accepted: list[str] = []

    def submit(self, name: str) -> httpx.Response:
        headers = {"Content-Type": "application/yaml", "Idempotency-Key": name}
        answer = self._http.post("/v1/workloads", content=JOB.replace("NAME", name), headers=headers)
        if answer.status_code == 201:
            self.accepted.append(name)
        return answer

    def accepts(self, name: str) -> None:
        self.submit(name).raise_for_status()

    def missing(self) -> list[str]:
        paths = {name: f"/v1/workloads/{name}" for name in self.accepted}
        return [name for name, path in paths.items() if self._http.get(path).status_code != 200]

    def close(self) -> None:
        self._http.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=False)


def test_with_a_full_disk_it_refuses_new_work_and_goes_on_when_there_is_room(
    disk: Path, start_up: Callable[..., Up]
) -> None:
    server = start_up("--port", "0", state=disk / "state")
    caller = Caller(server)
    caller.accepts("before")
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass
    refused = next(
        answer for number in range(20_000) if (answer := caller.submit(f"job-{number}")).status_code != 201
    )
    assert refused.status_code == 503
    assert "the disk is full" in refused.json()["detail"]
    assert "Free some space" in refused.json()["remedy"]
    assert caller.missing() == []
    filler.unlink()
    until_done(lambda: caller.accepts("after"), "room on the disk")
    assert caller.missing() == []
    caller.close()
    code, _ = server.stop()
    assert code == 0
    verified = server.dure("audit", "verify", "-o", "json")
    assert (verified.returncode, json.loads(verified.stdout)["findings"]) == (0, [])


def test_without_a_file_left_to_open_it_keeps_what_it_has_and_comes_back(
    tmp_path: Path, start_up: Callable[..., Up]
) -> None:
    server = start_up("--port", "0", state=tmp_path / "state")
    caller, pid = Caller(server), server.process.pid
    caller.accepts("before")
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (used, before[1]))
    for number in range(20):
        answer = caller.submit(f"job-{number}")
        assert answer.status_code in (201, 503), answer.text
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    until_done(lambda: caller.accepts("after"), "files to open")
    assert caller.missing() == []
    caller.close()
    assert server.stop()[0] == 0


def test_the_wrong_moment_is_noticed_when_the_clock_was_set_back(tmp_path: Path) -> None:
    """Reports of the future would be older than none: time goes on from the newest of them."""
    from structlog.testing import capture_logs

    from dure.cli.fleet_file import fleet_and_catalogue
    from dure.embedded.live import LiveFleet
    from dure.model.report import Report
    from tests.chaos.embedded import FLEET

    (tmp_path / "fleet.yaml").write_text(FLEET)
    fleet, catalogue = fleet_and_catalogue(tmp_path / "fleet.yaml")
    first = LiveFleet(fleet, catalogue, tmp_path / "state", speed=1.0)
    ahead_s = time.time() + 3600
    first.store.write_report(Report("seoul", ahead_s, "v", (), ()))
    first.store.close()
    first.samples.close()
    with capture_logs() as logs:
        again = LiveFleet(fleet, catalogue, tmp_path / "state", speed=1.0)
    assert again.clock.now() >= ahead_s
    assert [one["event"] for one in logs] == ["the clock was set back; going on from the newest record"]
    again.store.close()
    again.samples.close()
