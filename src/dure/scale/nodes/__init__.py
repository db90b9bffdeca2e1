"""Which machines to start, keep, replace and stop.

`state` is the vocabulary, `packer` the one solver, `provision` runs it on pending pods, `consolidate` on a copy of
the cluster, `budget` says how many nodes may go now, `lifecycle` covers expiry, drift, schedules, `spot` a reclaim.
"""
