"""Which queue a Kubernetes Job enters, and whether one that waits should change it. Pure.

`situation` is what a policy may see, one file per policy (`static`, `seed`, `earliest_finish`, `chain`), `reroute`
looks again at what waits, `accepts` and `rewrite` read and change the Job itself, `durations` learns.
"""
