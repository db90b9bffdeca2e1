"""How many replicas, how much of the elastic pool, which nodes. Pure.

Signals and states go in, decisions with reasons come out; the agent, the simulator and `dure scale` call it.
`hpa` and `keda` mirror the Kubernetes controllers exactly; `serving` is Dure's own policy; `nodes` plans machines.
"""
