"""A policy of another package, held at arm's length: loaded when it is first asked for, and set aside if it fails.

The default then orders in its place until the daemon starts again, so a device goes on whatever a policy does; its
status says what happened. Made by `config.known_policies`.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint

from dure.share.policies import POLICIES, Rank
from dure.share.policies.arrays import Flags, Places, Reals

INSTEAD = "slack-guarded"


class Foreign:
    """`failed` says why it was set aside; empty while it works. Called by one thread at a time."""

    def __init__(self, point: EntryPoint) -> None:
        self.failed = ""
        self._point = point
        self._rank: Rank | None = None

    def __call__(
        self, waiting: Flags, left: Reals, need: Reals, age: Reals, target: Reals, weight: Reals, out: Places
    ) -> None:
        given = (waiting, left, need, age, target, weight, out)
        if not self.failed:
            try:
                self._rank = self._rank or self._point.load()
                self._rank(*given)
            except Exception as error:
                self.failed = f"{type(error).__name__}: {error}"
        if self.failed:
            POLICIES[INSTEAD](*given)


def failed(policy: Rank) -> str:
    """Why this policy was set aside; empty for one that works."""
    return policy.failed if isinstance(policy, Foreign) else ""
