"""NVIDIA devices through NVML, and the MPS control daemon's text dialogue.

`nvml` implements `DevicePort`; it takes the NVML binding as an argument, so tests hand it a fake library.
"""
