"""The MPS control daemon: one text command a line, one answer.

`MpsControl` writes commands through a function that talks to the daemon (`nvidia-cuda-mps-control` by default). The
active-thread percentage of a running client cannot be changed: what is set here holds for the next client.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from dure.model.errors import InvalidInput, Temporary

Talk = Callable[[str], str]
PROGRAM = "nvidia-cuda-mps-control"
PATIENCE_S = 10.0


def through_program(line: str) -> str:
    """Ask the control program on this node; `Temporary` when it does not answer."""
    try:
        done = subprocess.run(
            [PROGRAM], input=line + "\n", capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Temporary(
            f"the MPS control daemon does not answer: {error}", remedy="Start it: nvidia-cuda-mps-control -d"
        ) from error
    if done.returncode != 0:
        raise Temporary(f"the MPS control daemon refused: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.strip()


class MpsControl:
    """Shares of future clients of one daemon."""

    def __init__(self, talk: Talk = through_program) -> None:
        self._talk = talk

    def servers(self) -> tuple[int, ...]:
        return tuple(int(line) for line in self._talk("get_server_list").split() if line.isdigit())

    def clients(self, server: int) -> tuple[int, ...]:
        return tuple(int(line) for line in self._talk(f"get_client_list {server}").split() if line.isdigit())

    def set_share(self, server: int, percent: float) -> None:
        """Part of the SMs that the next clients of this server may use."""
        if not 0.0 < percent <= 100.0:
            raise InvalidInput(f"a share of {percent} % is not possible", remedy="Give more than 0 and at most 100.")
        self._talk(f"set_active_thread_percentage {server} {percent:g}")

    def share(self, server: int) -> float:
        return float(self._talk(f"get_active_thread_percentage {server}"))

    def set_memory(self, server: int, device: int, mib: int) -> None:
        """Pinned memory limit of the next clients on one device."""
        self._talk(f"set_device_pinned_mem_limit {server} {device} {mib}M")
