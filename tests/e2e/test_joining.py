"""`dure agent --join` as a process, over a network that loses the plane's answer: no second token is needed."""

from __future__ import annotations

import os
import random
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from dure.adapters.store import open_store
from dure.model.audit import AuditBody
from tests.chaos.network import Network
from tests.chaos.waiting import free_port
from tests.e2e.conftest import Up
from tests.e2e.test_replicas import FLEET

pytestmark = pytest.mark.slow

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: away
clusters: [{name: away, cluster: {server: "http://127.0.0.1:PORT"}}]
users: [{name: agent, user: {}}]
contexts: [{name: away, context: {cluster: away, user: agent}}]
"""


class Deaf(Network):
    """Carries everything; of the first request it carries, the answer is lost."""

    def __init__(self, port: int) -> None:
        super().__init__(port, random.Random(0))
        self.carried: list[str] = []

    def fate(self, path: str) -> tuple[str, float]:
        self.carried.append(path)
        return ("deaf" if len(self.carried) == 1 else "through"), 0.0


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/plane/dure.db"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def up(url: str, tmp_path: Path, start_up: Callable[..., Up]) -> Up:
    (tmp_path / "fleet.yaml").write_text(FLEET)
    options = ("--port", "0", "--fleet", str(tmp_path / "fleet.yaml"))
    store = ("--store", url) if url.startswith("postgres") else ()
    return start_up(*options, *store, state=tmp_path / "plane")


@pytest.fixture
def network(up: Up) -> Iterator[Deaf]:
    made = Deaf(int(up.url.rpartition(":")[2]))
    yield made
    made.close()


class Agent:
    """The same command each time, as a service manager would run it."""

    def __init__(self, folder: Path, plane: str, token: str) -> None:
        self.state = folder / "agent"
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(KUBECONFIG.replace("PORT", str(free_port())))
        options = ("--cluster", "seoul", "--plane", plane, "--kubeconfig", str(kubeconfig), "--join", token)
        self._command = [sys.executable, "-m", "dure", "agent", *options, "--state", str(self.state)]

    def run(self) -> tuple[int | None, str]:
        """Until it ends or runs, and what it said; no code where it runs. It is ended then."""
        process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if "is running" in line:
                process.send_signal(signal.SIGKILL)
        code = process.wait()
        process.stderr.close()
        return (None if code == -signal.SIGKILL else code), said


def test_an_agent_whose_answer_was_lost_joins_with_the_same_command(
    up: Up, url: str, network: Deaf, tmp_path: Path
) -> None:
    token = up.dure("cluster", "join", "seoul").stdout.split()[-1]
    agent = Agent(tmp_path, network.url, token)
    code, said = agent.run()
    assert code == 6, said
    assert "Run the same command again" in said
    assert token not in said
    kept, proposed = agent.state / "agent-seoul.credential", agent.state / "agent-seoul.proposed"
    assert not kept.exists()
    assert stat.S_IMODE(proposed.stat().st_mode) == 0o600
    secret = proposed.read_text()

    code, said = agent.run()
    assert code is None, said
    assert kept.read_text() == secret
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert not proposed.exists()
    assert network.carried[:2] == ["/v1/agents/seoul/join"] * 2

    kept.unlink()
    code, said = agent.run()
    assert code == 3, "another secret with the same token is refused"
    assert "used" in said

    with_lines = open_store(url)
    lines = [msgspec.json.decode(line.body, type=AuditBody) for line in with_lines.list_audit(limit=1000)]
    findings = with_lines.verify_audit()[1]
    with_lines.close()
    assert [line.who for line in lines if line.action == "Join"] == ["agent of seoul"]
    assert findings == []
