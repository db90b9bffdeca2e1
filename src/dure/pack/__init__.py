"""Local: which node, which device, which slice. Pure: ClusterState -> decisions.

`room` is what is free, `fit` what a demand would take of one device, `bestfit` the choice, `pools` what the plane
is told of it all.
"""

from dure.pack.bestfit import pack
from dure.pack.pools import pools_of

__all__ = ["pack", "pools_of"]
