"""Submissions of one moment are kept together: one transaction, one write to the disk, then each gets its answer.

Called by the route that takes workloads. While one group is being written the next one gathers, so that under load
the cost of a commit is shared by all who wait for it, and without load nobody waits for company. A submission is
answered only after its commit; what is wrong with one does not concern the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from dure.api.backend import Backend
from dure.model.errors import DureError
from dure.model.workload import WorkloadRecord
from dure.ports import Wish

# A group is written in a few milliseconds for each hundred; nobody should wait for thousands of others.
MOST = 500

_Waiting = tuple[Wish, "asyncio.Future[WorkloadRecord]"]


class Intake:
    """Lives in the event loop of the server."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._waiting: list[_Waiting] = []
        self._writer: asyncio.Task[None] | None = None

    async def submit(self, wish: Wish) -> WorkloadRecord:
        """The record once it is safe; the errors of `Backend.submit`."""
        answer: asyncio.Future[WorkloadRecord] = asyncio.get_running_loop().create_future()
        self._waiting.append((wish, answer))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())
        return await answer

    async def _write(self) -> None:
        try:
            while self._waiting:
                group, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
                try:
                    made = await asyncio.to_thread(self._backend.submit_all, [wish for wish, _ in group])
                except Exception as error:
                    _refuse(group, error)
                else:
                    _tell(group, made)
        finally:
            self._writer = None


def _tell(group: Sequence[_Waiting], made: Sequence[WorkloadRecord | DureError]) -> None:
    for (_, answer), result in zip(group, made, strict=True):
        # Who has hung up meanwhile has cancelled the wait, not the workload.
        if answer.done():
            continue
        if isinstance(result, DureError):
            answer.set_exception(result)
        else:
            answer.set_result(result)


def _refuse(group: Sequence[_Waiting], error: Exception) -> None:
    for _, answer in group:
        if not answer.done():
            answer.set_exception(error)
