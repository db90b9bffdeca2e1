"""Submissions at a steady rate while dashboards listen: how long one takes, and whether memory grows.

    make load                                    10,000 a minute for 10 minutes, 1,000 devices, 100 listeners
    make load ARGS="--per-minute 600 --minutes 1 --listeners 10"

A whole `dure up` in a process of its own, and its agents with imitated clusters in another. Load is open: the next
submission does not wait for the one before, as people do not either, so that a server which falls behind is seen to.
A submission's time counts from the moment it was due.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

FLEET = """
apiVersion: dure.dev/v1alpha1
kind: Fleet
metadata: {name: load}
spec:
  clusters:
    - name: seoul
      connect: {agent: joined}
      pools: [{name: big, class: a100-40gb-sxm, nodes: 63, devices: 8, price: {owned: 1000/h}}]
    - name: busan
      connect: {agent: joined}
      pools: [{name: big, class: a100-40gb-sxm, nodes: 62, devices: 8, price: {owned: 1100/h}}]
  tenants: [{name: vision}]
"""
JOB = """{"apiVersion": "dure.dev/v1alpha1", "kind": "Workload", "metadata": {"name": "NAME", "tenant": "vision"},
"spec": {"type": "batch", "classes": ["a100-40gb-sxm"], "demand": {"devices": 1}, "duration": "2s"}}"""
SAMPLE_S = 5.0
# Compiled code is loaded when it is first needed; a server is measured that has worked for a while.
WARM_PER_MINUTE = 1_200
PATIENCE_S = 60.0
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Run:
    """Speaks HTTP by hand over connections that it keeps: a client library takes longer for a request than the server
    may, and of the two cores one would be the client's."""

    def __init__(self, url: str, token: str, pid: int) -> None:
        self._pid = pid
        self._host, self._port = urlsplit(url).hostname, urlsplit(url).port
        self._head = f"Host: {self._host}:{self._port}\r\nAuthorization: Bearer {token}\r\n"
        self._idle: list[Connection] = []
        self.took_s: list[float] = []
        self.refused: dict[str, int] = {}
        self.heard = 0
        self.reconnected = 0
        self.mib: list[float] = []
        self.cpu_s = 0.0

    async def play(self, per_minute: int, minutes: float, listeners: int, warm_s: float) -> None:
        beside = [asyncio.create_task(self._listen()) for _ in range(listeners)]
        await self._submit_all("warm", WARM_PER_MINUTE, warm_s / 60)
        self.took_s, self.refused = [], {}
        beside.append(asyncio.create_task(self._watch_memory()))
        cpu_s = _cpu_s(self._pid)
        await self._submit_all("load", per_minute, minutes)
        self.cpu_s = _cpu_s(self._pid) - cpu_s
        for one in beside:
            one.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        for _, writer in self._idle:
            writer.close()

    async def _submit_all(self, word: str, per_minute: int, minutes: float) -> None:
        began, total = time.monotonic(), round(per_minute * minutes)
        under_way: set[asyncio.Task[None]] = set()
        for number in range(total):
            due = began + number * 60.0 / per_minute
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            task = asyncio.create_task(self._submit(f"{word}-{number}", due))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
        await asyncio.gather(*under_way)

    async def _submit(self, name: str, due: float) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                outcome = await self._post(name) or await self._post(name, fresh=True)
        except (OSError, EOFError, TimeoutError) as error:
            outcome = type(error).__name__
        if outcome == "201":
            self.took_s.append(time.monotonic() - due)
        else:
            self.refused[outcome] = self.refused.get(outcome, 0) + 1

    async def _post(self, name: str, *, fresh: bool = False) -> str:
        """The status; none when the server had closed the connection that was kept."""
        kept = self._idle.pop() if self._idle and not fresh else None
        reader, writer = kept or await asyncio.open_connection(self._host, self._port)
        body = JOB.replace("NAME", name)
        headers = f"Content-Type: application/json\r\nIdempotency-Key: load/{name}\r\nContent-Length: {len(body)}"
        writer.write(f"POST /v1/workloads HTTP/1.1\r\n{self._head}{headers}\r\n\r\n{body}".encode())
        try:
            answer = await reader.readuntil(b"\r\n\r\n")
        except (EOFError, ConnectionError):
            if kept is None:
                raise
            return ""
        length = next(line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.split(b":")[1]))
        self._idle.append((reader, writer))
        return answer.split(b" ", 2)[1].decode()

    async def _listen(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection(self._host, self._port)
                writer.write(f"GET /v1/events HTTP/1.1\r\n{self._head}Accept: text/event-stream\r\n\r\n".encode())
                while chunk := await reader.read(2**18):
                    self.heard += chunk.count(b"\ndata:")
                writer.close()
            self.reconnected += 1
            await asyncio.sleep(1.0)

    async def _watch_memory(self) -> None:
        while True:
            self.mib.append(_mib(self._pid))
            await asyncio.sleep(SAMPLE_S)

    def told(self) -> dict[str, Any]:
        took = sorted(self.took_s) or [0.0]
        sampled = len(self.mib)
        quarters = [self.mib[sampled * part // 4 : sampled * (part + 1) // 4] for part in range(4)]
        return {
            "accepted": len(self.took_s),
            "refused": self.refused,
            **{f"p{p}_ms": round(took[min(len(took) - 1, len(took) * p // 100)] * 1000, 1) for p in (50, 95, 99)},
            "events_heard": self.heard,
            "listeners_came_back": self.reconnected,
            "mib_first": round(self.mib[0]) if self.mib else 0,
            "mib_quarters": [round(statistics.median(one), 1) if one else None for one in quarters],
            "mib_most": [round(max(one), 1) if one else None for one in quarters],
            "mib_last": round(self.mib[-1]) if self.mib else 0,
            "server_cpu_ms_each": round(self.cpu_s / max(1, len(self.took_s)) * 1000, 1),
            "load": round(os.getloadavg()[0], 1),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--per-minute", type=int, default=10_000)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--listeners", type=int, default=100)
    parser.add_argument("--warm-s", type=float, default=20.0, help="lighter load first, which is not counted")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dure-load-", ignore_cleanup_errors=True) as folder:
        state = Path(folder) / "state"
        (Path(folder) / "fleet.yaml").write_text(FLEET)
        options = ["--state", str(state), "--port", "0", "--fleet", f"{folder}/fleet.yaml"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with (Path(folder) / "log").open("wb") as log:
            command = [sys.executable, "-m", "dure", "up", *options]
            server = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        started = [server]
        try:
            url, token = _address(state)
            members = [sys.executable, "-m", "tests.load.members", url, token, f"{folder}/fleet.yaml"]
            started.append(subprocess.Popen(members, env=environment))
            run = Run(url, token, server.pid)
            asyncio.run(run.play(asked.per_minute, asked.minutes, asked.listeners, asked.warm_s))
        finally:
            for process in reversed(started):
                process.send_signal(signal.SIGTERM)
                process.wait()
    print(json.dumps({"per_minute": asked.per_minute, "minutes": asked.minutes, **run.told()}))


def _mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _cpu_s(pid: int) -> float:
    """Processor time of the server so far; unlike how long things take, it hardly depends on who else computes."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _address(state: Path) -> tuple[str, str]:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError):
            found = json.loads((state / "address.json").read_text())
            return str(found["url"]), (state / "token").read_text().strip()
        time.sleep(0.2)
    raise SystemExit(f"Dure has not started within {PATIENCE_S:.0f} s")


if __name__ == "__main__":
    main()
