"""Which partitions a member gets, where a partition is a place: neighbouring ones, nobody else's.

On a GPU with green contexts a number of SMs is not enough: two members with half of them each must have different
halves. The device daemon asks for every piece. Best fit: the smallest gap that is large enough; where the free ones
are scattered, the largest gap there is, so somebody may get less than it was given. O(n log n) in the members.
"""

from __future__ import annotations

from collections.abc import Sequence


def fit(held: Sequence[range], wanted: int, total: int) -> range:
    """At most `wanted` free neighbours of `total`; empty when nothing is free."""
    gaps: list[range] = []
    at = 0
    for taken in sorted(held, key=lambda r: r.start):
        gaps.append(range(at, taken.start))
        at = max(at, taken.stop)
    gaps.append(range(at, total))
    enough = [gap for gap in gaps if len(gap) >= wanted]
    if enough:
        best = min(enough, key=lambda gap: (len(gap), gap.start))
        return range(best.start, best.start + wanted)
    return max(gaps, key=lambda gap: (len(gap), -gap.start))
