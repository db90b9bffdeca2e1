"""ONNX Runtime as a device: models are cut into segments, segments are what squads are made of.

`models` writes small models for tests and demos, `cut` divides a model, `worker` runs one tenant's segments in a
process of its own.
"""
