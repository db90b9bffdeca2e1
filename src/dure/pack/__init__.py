"""Local: which node, which device, which slice. Pure: ClusterState -> decisions.

`packer` decides for a live cluster: `room` is what is free, `fit` what a demand would take, `seating` the choice,
`clearing` preemption and moves, `defrag` plans, `burst` elastic slices, `pools` what the plane is told of it all.
`grid` is the cluster as arrays: `board` keeps one beside the rooms of a large live cluster and asks it which nodes
are worth a look, replays of traces drive it alone. `worth` turns the demand `mix` into the prices of both.
"""

from dure.pack.memory import Memory
from dure.pack.packer import pack
from dure.pack.pools import Survey
from dure.pack.seating import PackSettings

__all__ = ["Memory", "PackSettings", "Survey", "pack"]
