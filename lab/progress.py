"""How far a build is and how long it will still take.

Used by `lab.build`. Pure arithmetic over a list of artifacts, except for `say`, which writes the line.
"""

import sys
from collections.abc import Sequence

from lab.versions import Artifact


class Progress:
    """Expected times per artifact, corrected by the pace of those already done on this machine."""

    def __init__(self, todo: Sequence[Artifact], cores: int) -> None:
        self._left = list(todo)
        self._total = len(todo)
        self._expected_done_s = 0.0
        self._actual_done_s = 0.0
        # The expected times were measured on two cores; linking keeps the gain of more cores below linear.
        self._first_guess = max(0.3, min(2.0, 2 / cores))

    @property
    def pace(self) -> float:
        """Real seconds per expected second."""
        if self._expected_done_s == 0:
            return self._first_guess
        return self._actual_done_s / self._expected_done_s

    def remaining_s(self, elapsed_s: float = 0.0) -> float:
        """Seconds left when the first artifact of the list has been building for `elapsed_s`."""
        if not self._left:
            return 0.0
        current, later = self._left[0], self._left[1:]
        # An artifact that takes longer than expected is assumed to need another tenth.
        rest = max(current.cold_s * self.pace - elapsed_s, 0.1 * current.cold_s * self.pace)
        return rest + self.pace * sum(artifact.cold_s for artifact in later)

    def finished(self, elapsed_s: float) -> None:
        done = self._left.pop(0)
        self._expected_done_s += done.cold_s
        self._actual_done_s += elapsed_s

    def line(self, what: str, elapsed_s: float = 0.0) -> str:
        """One line for a reader who waits."""
        if not self._left:
            return f"lab: {what}"
        number = self._total - len(self._left) + 1
        left = duration(self.remaining_s(elapsed_s))
        return f"lab: [{number}/{self._total}] {self._left[0].name}: {what}; about {left} left in all"


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
