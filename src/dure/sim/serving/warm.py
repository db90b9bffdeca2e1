"""How many warm machines several services need together.

Called wherever services share machines that have booted and hold the image. A service alone must keep the whole
margin of its forecast as replicas of its own. Services whose forecasts err independently do not err at the same time:
their common margin is the root of the sum of squares, and a warm machine serves whoever is wrong. Not for services
that surge together, such as the stages of one pipeline: their errors add up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable


def pool_size(errors: Iterable[float], safety: float) -> int:
    """Warm machines for the standard errors of the services' forecasts, in replicas; `safety` as in `serving`."""
    return max(0, math.ceil(safety * math.sqrt(sum(error * error for error in errors)) - 1e-9))
