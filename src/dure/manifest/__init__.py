"""Manifests for the systems around Dure (Karpenter, KEDA, HPA, DCGM, Prometheus, Kueue): made right, and judged.

`lint` finds known traps in anybody's manifests; `render` makes manifests out of a fleet that have none of them;
`sizing` and `savings` do the arithmetic of advice. Pure: text, files and clusters are the callers' business.
"""
