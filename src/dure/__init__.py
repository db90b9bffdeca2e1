"""Dure: one brain for the accelerators of many Kubernetes clusters.

Start reading at `dure.model.snapshot` (what goes in) and `dure.model.decision` (what comes out).
"""

__version__ = "0.1.0"
