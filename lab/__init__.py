"""The lab: real Kubernetes clusters (and Kueue) as plain processes on loopback, for tests and benchmarks.

Not part of the installed package. `from lab import Lab`; README.md in this folder tells the rest.
"""

from lab.cluster import Cluster
from lab.errors import LabError
from lab.lab import Lab

__all__ = ["Cluster", "Lab", "LabError"]
