"""The embedded world: member clusters, prices, carbon, metrics and a stream of workloads, all inside this process.

Shipped, not only for tests: `dure up` and `dure sim` run on it. Everything here follows the given Clock and seed;
the same seed and calls give the same bytes.
"""
