"""KEDA's rules as pure functions: the ScaledObject loop, the metrics it serves, and the HPA it drives.

`spec` holds what a user writes, `loop` decides between zero, idle and running, `serve` answers the HPA's questions
with fallback and scaling modifiers, `formula` evaluates those modifiers, `engine` runs loop and HPA together.
"""
