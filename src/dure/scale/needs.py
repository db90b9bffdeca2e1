"""What one service of a group needs, in replicas, and by how much that changes before a replica comes back.

Called by `plane.pooling` with what a service's engines count. The need is the rate of requests of the last moments
and what waits, over what a replica carries. Its error is how far the need has been from what it was `back_s` earlier,
the root of the mean square of half an hour: a replica that is given away is there again after about so long, so this
is what its owner may be wrong by. Requests that wave to and fro make it large, and large errors keep replicas where
they are (`pools`). A pure function of what it was shown; cost: O(looks within `back_s`).
"""

from __future__ import annotations

import math

import msgspec

from dure.model.units import Instant, Seconds


class NeedSettings(msgspec.Struct, frozen=True):
    """Looks are `look_s` apart or more; what waits is to be worked off in `backlog_s`.

    An error of `guess` of the need is supposed at first, as if it had been seen for `guessed_s`.
    """

    look_s: Seconds = 15.0
    back_s: Seconds = 90.0
    memory_s: Seconds = 1800.0
    backlog_s: Seconds = 60.0
    guess: float = 0.15
    guessed_s: Seconds = 300.0


class Counted(msgspec.Struct, frozen=True):
    """Requests that came until `at_s`, a counter that only rises, and how many of them wait."""

    at_s: Instant
    asked: int
    waiting: int = 0


class Need:
    """`replicas` and `error` after a look; a replica carries `carries` requests per second."""

    def __init__(self, carries: float, settings: NeedSettings = NeedSettings()) -> None:  # noqa: B008  # frozen
        self.settings, self.carries = settings, carries
        self.replicas = 0.0
        self.known = False
        self._last: Counted | None = None
        self._rates: list[tuple[Instant, float]] = []
        self._squares, self._seen_s = 0.0, 0.0

    @property
    def error(self) -> float:
        """Never zero, so that it can be divided by."""
        guessed = self.settings.guess * self.replicas
        known_s = self._seen_s + self.settings.guessed_s
        return max(math.sqrt((self._squares + self.settings.guessed_s * guessed**2) / known_s), LEAST_ERROR)

    @property
    def wanted(self) -> int:
        """What to ask for: one error more than is needed."""
        return math.ceil(self.replicas + self.error)

    def look(self, now: Counted) -> bool:
        """Whether something new could be said; a counter that has begun anew says nothing at first."""
        last = self._last
        if last is None or now.asked < last.asked:
            self._last = now
            return False
        passed_s = now.at_s - last.at_s
        if passed_s < self.settings.look_s:
            return False
        rate = (now.asked - last.asked) / passed_s / self.carries
        self._learn(now.at_s, rate, passed_s)
        self.replicas = rate + now.waiting / self.settings.backlog_s / self.carries
        self._last, self.known = now, True
        return True

    def _learn(self, at_s: Instant, rate: float, passed_s: Seconds) -> None:
        """What waits is left out here: it comes and goes with the replicas themselves."""
        self._rates.append((at_s, rate))
        while len(self._rates) > 1 and at_s - self._rates[1][0] >= self.settings.back_s:
            del self._rates[0]
        then_s, then = self._rates[0]
        if at_s - then_s < self.settings.back_s:
            return
        keep = math.exp(-passed_s / self.settings.memory_s)
        self._squares = self._squares * keep + passed_s * (rate - then) ** 2
        self._seen_s = self._seen_s * keep + passed_s


# The least error in replicas that is believed.
LEAST_ERROR = 0.05
