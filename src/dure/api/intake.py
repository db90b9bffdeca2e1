"""Submissions of one moment are kept together: one transaction, one write to the disk, then each gets its answer.

Called by the route that takes workloads. While one group is being written the next one gathers, and a moment longer
where the last one was of several, so that under load the cost of a commit is shared by all who wait for it; who
comes alone, also time after time, never waits for company. A submission is answered only after its commit; what is
wrong with one does not concern the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from dure.api.backend import Backend
from dure.model.errors import DureError
from dure.model.workload import WorkloadRecord
from dure.ports import Wish

# A group is written in a few milliseconds for each hundred; nobody should wait for thousands of others.
MOST = 500
# From the begin of one group to the next while they come in company: a transaction costs as much as many submissions.
APART_S = 0.01

_Waiting = tuple[Wish, "asyncio.Future[WorkloadRecord]"]


class Intake:
    """Lives in the event loop of the server."""

    def __init__(
        self,
        backend: Backend,
        rest: Callable[[float], Awaitable[None]] = asyncio.sleep,
        *,
        apart_s: float = APART_S,
    ) -> None:
        self._backend = backend
        self._rest, self._apart_s = rest, apart_s
        self._next_s = 0.0
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
                await self._apart()
                group, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
                try:
                    made = await asyncio.to_thread(self._backend.submit_all, [wish for wish, _ in group])
                except Exception as error:
                    _refuse(group, error)
                else:
                    _tell(group, made)
                if len(group) == 1 and not self._waiting:
                    self._next_s = 0.0
        finally:
            self._writer = None

    async def _apart(self) -> None:
        """Until the next group may begin; at once where the last one was alone."""
        now_s = asyncio.get_running_loop().time()
        if len(self._waiting) < MOST and self._next_s > now_s:
            await self._rest(self._next_s - now_s)
        self._next_s = max(now_s, self._next_s) + self._apart_s


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
