"""A small model server for containers: ONNX models behind HTTP, on a slice of the node's accelerator or on its own.

`python -m dure.device.serving MODEL`. `backend` runs the model, `server` is the door, `figures` what it tells.
"""
