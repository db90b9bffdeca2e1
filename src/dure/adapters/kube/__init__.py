"""A real Kubernetes cluster behind `ClusterPort`.

`rest` talks, `mirror` keeps a live copy, `nodes` and `pods` translate, `manifests` and `crds` are what is written,
`cluster` is the port.
"""
