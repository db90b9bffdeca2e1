"""Types of the arrays that ranking policies read and write, one entry for each tenant."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
Reals = NDArray[np.float64]
Places = NDArray[np.int64]
