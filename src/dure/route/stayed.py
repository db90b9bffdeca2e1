"""What would have become of a queue if every job had stayed where it said, first come: the bar for any other order.

Kept by the gateway and by the simulator, one value for each queue; read by `reroute`. Two rows of slots that are
given the same further jobs in the same order keep their distance: if every slot of ours is free at most `d` later
than the same slot here, smallest with smallest, then whatever still arrives ends at most `d` later than it would
have. So with true durations a plan that is not behind can end, whatever comes, within `share` of staying.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence

import msgspec

from dure.model.units import Instant, Seconds


class Stayed(msgspec.Struct, frozen=True):
    """When each slot would be free, earliest first; `since_s` is when they were all free for the last time.

    `work_s` is what each slot was given since then.
    """

    free_s: tuple[Instant, ...]
    since_s: Instant
    work_s: Seconds = 0.0

    def entered(self, run_s: Seconds, now_s: Instant) -> Stayed:
        """One more job that names this queue."""
        anew = self.free_s[-1] <= now_s
        later = list(self.free_s[1:])
        bisect.insort(later, max(now_s, self.free_s[0]) + run_s)
        work_s = (0.0 if anew else self.work_s) + run_s / len(self.free_s)
        return Stayed(tuple(later), now_s if anew else self.since_s, work_s)

    def busy(self, now_s: Instant) -> int:
        """How many slots would be held by those who name this queue."""
        return len(self.free_s) - bisect.bisect_right(self.free_s, now_s)

    def behind_s(self, free_s: Sequence[Instant], now_s: Instant, share: float) -> Seconds:
        """By how much slots that are free at these times fall behind, beyond this share of the time it all takes."""
        spare = share * max(0.0, self.free_s[-1] - self.since_s)
        pairs = zip(sorted(free_s), self.free_s, strict=True)
        return max(ours - max(theirs, now_s) - spare for ours, theirs in pairs)


def begun(slots: int, now_s: Instant, ends_s: Iterable[Instant] = (), run_s: Iterable[Seconds] = ()) -> Stayed:
    """A queue as it stands: until when each that runs there does, and how long those take that wait, in order."""
    busy = sorted(max(now_s, end) for end in ends_s)[:slots]
    found = Stayed((*(now_s,) * (slots - len(busy)), *busy), now_s)
    for one in run_s:
        found = found.entered(one, now_s)
    return found
