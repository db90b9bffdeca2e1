"""A modelled LLM service: continuous-batching engines, arrivals from traces, scalers under test.

`kernel` is the engine's inner loop, `service` a fleet of replicas in virtual time, `arrivals` makes request streams,
`scalers` wraps HPA, KEDA, the oracle and Dure's policy behind one call, `run` plays one against the other.
"""
