"""One device: which kernels run together next, with how many SMs. Pure.

Three layers: `policies/` orders the tenants, the engine (`predict`, `interference`, `compat`, `squad`) forms squads,
and allocation (`split`, `memory`, `bandwidth`) divides SMs, memory and bandwidth among them.
"""
