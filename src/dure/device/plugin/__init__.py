"""The node's accelerators as Kubernetes resources: a device plugin and a DRA driver in one process.

`node` says what there is, `prefer` and `inject` decide what a container gets, `book` remembers who holds what,
`resource` and `claims` speak with the kubelet, `runner` keeps all of it registered.
"""
