"""The other half of `dure bench foresee`: a shared device whose equation 3 sees what is coming, or what was.

Two services with promises and a job that never rests on one virtual device; one service has a rush every twenty
seconds. Same seed, same requests.
"""

from __future__ import annotations

from dure.bench.result import Row
from dure.device.config import DeviceConfig, TenantConfig
from dure.device.virtual import Load, VirtualDevice
from dure.share.promise import Promise

CHAT_MS, EMBED_MS = 60.0, 20.0
CALM_PER_S, RUSH_PER_S, PERIOD_S = 40.0, 70.0, 20
LOADS = {
    "chat": Load((3.0, 1.0, 4.0, 2.0), (0.9, 0.2, 0.6, 0.3), CALM_PER_S),
    "embed": Load((1.0, 0.5, 1.5), (0.2, 0.4, 0.3), 90.0),
    "train": Load((4.0,) * 6, (1.0, 0.5, 1.0, 0.5, 1.0, 0.5), 0.0),
}
TENANTS = (
    TenantConfig("chat", "chat-7b", promise=Promise(latency_ms=CHAT_MS)),
    TenantConfig("embed", "embed-small", promise=Promise(latency_ms=EMBED_MS)),
    TenantConfig("train", "diffusion", batch=True),
)


def course(foresees: bool, seconds: int, seed: int) -> Row:
    """Late requests of the services, and how much the job got done meanwhile."""
    device = VirtualDevice(DeviceConfig(TENANTS, name="bench/gpu-0", policy="hybrid"), LOADS, seed=seed)
    device.tuner.foresees = foresees
    asked = late = done = 0
    for second in range(seconds):
        device.set_rate("chat", rate_at(second))
        device.play(1000.0)
        since_ms = device.now_ms() - 1000.0
        for name, limit_ms in (("chat", CHAT_MS), ("embed", EMBED_MS)):
            answers = device.record.answers(name, since_ms)
            asked += len(answers)
            late += sum(not one.ok or one.latency_ms > limit_ms for one in answers)
        done += len(device.record.answers("train", since_ms))
    return {
        "policy": "equation 3 ahead" if foresees else "equation 3 behind", "input": f"device, {seconds} s",
        "seed": seed, "requests": asked, "attained": round(1 - late / max(1, asked), 5), "late": late,
        "batch_done": done,
    }  # fmt: skip


def rate_at(second: int) -> float:
    """Calm, then up to the rush within six seconds, and back."""
    rush = max(0.0, 1.0 - abs(second % PERIOD_S - PERIOD_S / 2) / 6)
    return CALM_PER_S + (RUSH_PER_S - CALM_PER_S) * rush
