"""The MPS control daemon: one text command a line, one answer.

`MpsControl` writes commands through a function that talks to the daemon (`nvidia-cuda-mps-control` by default). The
active-thread percentage of a running client cannot be changed: what is set here holds for the next client. A client
may be told more at its start, by its environment (`client_environment`).
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, MutableMapping

from dure.model.errors import InvalidInput, Temporary

Talk = Callable[[str], str]
PROGRAM = "nvidia-cuda-mps-control"
PATIENCE_S = 10.0
PERCENTAGE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
CONTEXT_MIB = 512
"""Device memory of a client before any tensor: its context and what the math libraries load."""


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


def is_on(talk: Talk = through_program) -> bool:
    """The control daemon answers, so that the next process which uses a GPU is its client."""
    try:
        talk("get_server_list")
    except Temporary:
        return False
    return True


def client_environment(
    environment: MutableMapping[str, str], *, device: int, share: float | None, memory_mib: int, batch: bool
) -> None:
    """What a client must find in its environment before it first uses the GPU.

    `share` of the SMs at most for as long as it lives; None where green contexts say it, which a percentage would
    override. Memory beyond its own and its context's is refused. Batch work comes after everybody else's.
    """
    environment.pop(PERCENTAGE, None)
    if share is not None:
        environment[PERCENTAGE] = f"{100.0 * share:g}"
    if memory_mib > 0:
        environment["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = f"{device}={memory_mib + CONTEXT_MIB}M"
    environment["CUDA_MPS_CLIENT_PRIORITY"] = "1" if batch else "0"


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
