"""How devices, nodes and asks are written as numbers: the columns, codes and scales that the packing arrays share.

Apart from `kernels`, so that reading a figure does not load a compiler.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[Any]

WHOLE = 1000
CUT0 = 1001
CODES = CUT0 + 256
NEVER = np.int64(2**31 - 1)

# How a device is shared now; FREE devices take any mode they offer without a switch.
FREE, EXCLUSIVE, MPS, TIME, CUT = 0, 1, 2, 3, 4

# Columns of `hosts` (int64, one row per node) and `devs` (int32, one row per device).
H_CPU, H_MEM, H_TYPE, H_FIRST, H_SIZE, H_LANE, H_TAG, H_PHI, H_KEY, H_GATES, H_RANK = range(11)
HOST_FIELDS = 11
D_CODE, D_MEM, D_BW, D_CLIENTS, D_LIMIT, D_MODE, D_HOME, D_MODES, D_OWNER, D_ENGINE, D_LINK = range(11)
# What is left of compute, memory of the empty device, and its code when it is empty.
D_COMPUTE, D_TOTAL, D_BLANK = range(11, 14)
DEVICE_FIELDS = 14

# Fields of an ask, in the order of `ask.Ask`.
CPU, MEM, COUNT, MILLI, PROFILE, DMEM, DBW, MODE, TYPES, TENANT, ISOLATION, ENGINE, MODES, GATE = range(14)
ASK_FIELDS = 14

# Rates per thousandth are stored times 2**SHIFT / 1000: a shift is many times cheaper than a division.
SHIFT = 20
BINS = 16
TIERS = 4
# Nodes stand in lanes by the wide demand they have room for: none, less than a node, a whole one of each tier.
LANES = 2 + TIERS

# A core that will be missing beside idle devices costs three quarters of a device: here one millicore at one point.
CORE_PRICE = 750 // BINS

# Layout of `scal`: scalars, then host millicores per device at BINS points of the demand, then the tiers.
RAM_PER_DEVICE, RAM_PRICE, WIDE, WIDE_PRICE, TIE_CPU, TIE_IDLE, SWITCH_PRICE, ISOLATION_PRICE = range(8)
PART, PART_CPU = 8, 9
# What of a node will soon be idle besides: thousandths of a device, and the host CPU that comes back with a device.
BACK, BACK_CPU = 10, 11
RHO = 12
TIER = RHO + BINS
SCALARS = TIER + TIERS
