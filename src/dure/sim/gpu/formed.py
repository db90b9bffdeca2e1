"""How the squads of a real device drive the virtual GPU: `share.squad.form` itself, kernel by kernel.

The event loop stops whenever a request has come, one has ended, or all kernels of a member's part were issued;
`arrange` then has the engine of `share` form the next squad of all who have work, as the shared devices of a fleet
do, and the loop goes on. Kernels that were issued go on; there is no barrier. Called by `run.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dure.share.interference import App, Book, empty_book
from dure.share.policies import POLICIES
from dure.share.squad import Squad, SquadSettings, Waiting, form
from dure.sim.gpu.profile import Profile
from dure.sim.gpu.ranked import wants
from dure.sim.gpu.state import Gpu


class Former:
    """State of one run. Pairs are as the prior has them: what a run would teach is not used in it."""

    def __init__(self, g: Gpu, profiles: Sequence[Profile], policy: str, settings: SquadSettings) -> None:
        self._g = g
        self._policy = policy
        self._settings = settings
        self._book: Book = empty_book()
        self._apps = [App(profile.name) for profile in profiles]
        self._ms = [profile.ms for profile in profiles]
        self._left = [_rest(np.array(profile.ms)) for profile in profiles]
        sms = int(g.world[0]["sms"])
        self._fill = [_rest(np.array(p.ms) * np.minimum(p.sms, sms) / sms) for p in profiles]

    def arrange(self) -> None:
        """Form the next squad of everybody with a request inside."""
        world = self._g.world[0]
        live = [k for k in range(len(self._apps)) if self._g.tenants[k]["live"]]
        world["asks"] = False
        # The order is made here, not by the loop.
        world["ranked_until"] = np.inf
        if not live:
            return
        world["squads"] += 1
        waiting = [self._waiting(k) for k in live]
        self._begin(form(waiting, self._policy, POLICIES[self._policy], self._book, self._settings))

    def _waiting(self, k: int) -> Waiting:
        own, now = self._g.tenants[k], float(self._g.world[0]["t"])
        at, running = int(own["kernel"]), bool(own["running"])
        first = float(own["left"]) if running else self._ms[k][at]
        left = float(self._left[k][at]) - self._ms[k][at] + first
        return Waiting(
            tenant=f"{k:04d}",
            app=self._apps[k],
            segments_ms=(first, *self._ms[k][at + 1 : at + self._settings.most_segments]),
            left_ms=left * float(own["work"]) / float(self._left[k][0]),
            age_ms=now - float(own["arrived"]),
            target_ms=float(own["target"]),
            weight=float(own["weight"]),
            need=float(self._fill[k][at] / self._left[k][at]),
        )

    def _begin(self, squad: Squad) -> None:
        """Members run as far as the squad goes, the others end what was issued of them."""
        tenants, places = self._g.tenants, self._g.places
        places[:] = len(tenants)
        tenants["limit"] = np.maximum(tenants["issued"], tenants["kernel"])
        for member in squad.members:
            k = int(member.tenant)
            places[k] = member.rank
            tenants[k]["limit"] = max(tenants[k]["issued"], tenants[k]["kernel"] + member.segments)
        self._g.world[0]["open"] = sum(wants(self._g, k) for k in range(len(tenants)))


def _rest(values: np.ndarray) -> np.ndarray:
    """Sums from each entry to the end."""
    return np.cumsum(values[::-1])[::-1]
