"""A virtual device with two services and a job that never rests."""

from __future__ import annotations

from dure.device.config import DeviceConfig, TenantConfig
from dure.device.tuning import Spoken
from dure.device.virtual import Load, VirtualDevice
from dure.share.promise import Promise

LOADS = {
    "chat": Load((3.0, 1.0, 4.0, 2.0), (0.9, 0.2, 0.6, 0.3), 40.0),
    "embed": Load((1.0, 0.5, 1.5), (0.2, 0.4, 0.3), 90.0),
    "render": Load((4.0,) * 6, (1.0, 0.5, 1.0, 0.5, 1.0, 0.5), 0.0),
}
CONFIG = DeviceConfig(
    (
        TenantConfig("chat", "chat-7b", promise=Promise(latency_ms=60.0)),
        TenantConfig("embed", "embed-small", promise=Promise(latency_ms=20.0)),
        TenantConfig("render", "diffusion", batch=True),
    ),
    name="here/gpu-0",
)


def busy_device(seed: int = 3, spoken: Spoken | None = None) -> VirtualDevice:
    return VirtualDevice(CONFIG, LOADS, seed=seed, spoken=spoken)
