"""Numbers of the sharing systems inside the compiled event loop, and their names outside it."""

from __future__ import annotations

CAPPED, UNBOUND, TEMPORAL, REEF, ORION, BLESS, RANKED, FORMED = range(8)

JCT, SLO, HYBRID, SLACK_GUARDED = range(4)
