"""The HorizontalPodAutoscaler v2 rules of Kubernetes, as pure functions.

`spec` holds what a user writes, `observe` what a sync sees, `proposal` turns metrics into a replica count,
`normalize` stabilises and rate-limits it, `engine` strings them together into one sync.
"""
