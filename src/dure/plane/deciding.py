"""Which placement decides: the built-in one, or one of the owner's that a package brought along.

Own policies are found by the entry point group `dure.policies` and named `own-NAME` in a Policy. One that raises,
answers nonsense or takes longer than it may is set aside for the built-in one until its policy has another version,
and an event says so. It runs in a thread of its own: what it does after its time is up is not waited for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

from dure.adapters.tracing import span
from dure.model.decision import Decision
from dure.model.event import Event, Level
from dure.model.policy import Policy, Verb
from dure.model.snapshot import Snapshot
from dure.place.own import place_by
from dure.place.settings import OWN
from dure.ports import StorePort

GROUP = "dure.policies"
# An own policy that needs longer than this for one decision holds up everybody.
LIMIT_S = 5.0

Decide = Callable[[Snapshot], Sequence[Decision]]


@lru_cache(maxsize=1)
def own_policies() -> dict[str, EntryPoint]:
    """Those installed, by name."""
    return {point.name: point for point in entry_points(group=GROUP)}


class Deciding:
    """Called as the built-in decision is."""

    def __init__(self, default: Decide, store: StorePort, limit_s: float = LIMIT_S) -> None:
        self._default, self._store, self._limit_s = default, store, limit_s
        self._aside: tuple[str, int] | None = None

    def __call__(self, snapshot: Snapshot) -> Sequence[Decision]:
        with span("plane.decide", workloads=len(snapshot.records)):
            return self._decide(snapshot)

    def _decide(self, snapshot: Snapshot) -> Sequence[Decision]:
        policy = snapshot.policy(Verb.PLACE)
        if not policy.algorithm.startswith(OWN) or policy.paused or self._aside == (policy.name, policy.version):
            return self._default(snapshot)
        answer = self._asked(policy, snapshot)
        if isinstance(answer, str):
            self._aside = (policy.name, policy.version)
            message = f"policy {policy.name} version {policy.version} is set aside for the built-in one: {answer}"
            told = Event(snapshot.now_s, "PolicySetAside", message, level=Level.WARNING)
            self._store.commit([], events=(told,))
            return self._default(snapshot)
        return answer

    def _asked(self, policy: Policy, snapshot: Snapshot) -> Sequence[Decision] | str:
        """What it decides, or what is wrong with it."""
        answers: list[Sequence[Decision] | str] = []

        def ask() -> None:
            try:
                pick = own_policies()[policy.algorithm.removeprefix(OWN)].load()
                answers.append(place_by(pick, snapshot))
            except Exception as error:
                answers.append(f"{type(error).__name__}: {error}")

        thread = threading.Thread(target=ask, name="own-policy", daemon=True)
        thread.start()
        thread.join(self._limit_s)
        return answers[0] if answers else f"no answer within {self._limit_s:g} s"
