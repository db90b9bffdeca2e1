"""The published rule of dynamic ClusterQueue selection, four checks in order, kept exactly to compare with.

A light job leaves the GPU queue when that queue has no free quota and at least ten workloads wait there, while the
CPU queue has room for its cpu request and fewer than three workloads hold quota. It counts jobs, not work, so it
gains nothing from fast CPUs and loses where the CPU is the slower way. O(1).
"""

from __future__ import annotations

import msgspec

from dure.route.amounts import whole
from dure.route.situation import Candidate, Choice, Situation


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pending: int = 10
    reserving: int = 3
    scarce: str = "nvidia.com/gpu"
    plenty: str = "cpu"


def choose(job: Candidate, situation: Situation, settings: Settings | None = None) -> Choice:
    rule = settings or Settings()
    if not job.light:
        return Choice(0, "seed-not-light", "the job is not marked as light")
    gpu, cpu = situation.figures.get(job.home.lane), situation.figures.get(job.alternatives[1].lane)
    if gpu is None or cpu is None:
        return Choice(0, "seed-no-figures", "one of the two queues has no figures")
    gpu_free, cpu_free = gpu.free.get(rule.scarce, 0), cpu.free.get(rule.plenty, 0)
    saw = {
        "gpu_available": whole(gpu_free),
        "gpu_pending": gpu.pending,
        "cpu_available": whole(cpu_free),
        "cpu_reserving": cpu.reserving,
    }
    asked = job.alternatives[1].demand.get(rule.plenty, 0)
    checks = (
        (gpu_free <= 0, "seed-gpu-free", f"{whole(gpu_free)} of the scarce resource are free"),
        (gpu.pending >= rule.pending, "seed-short-queue", f"only {gpu.pending} wait, {rule.pending} are needed"),
        (cpu_free >= asked, "seed-no-room", f"{whole(cpu_free)} cpu free, {whole(asked)} asked"),
        (
            cpu.reserving < rule.reserving,
            "seed-cap",
            f"{cpu.reserving} hold quota there, {rule.reserving} is the cap",
        ),
    )
    for holds, name, because in checks:
        if not holds:
            return Choice(0, name, because, saw=saw)
    return Choice(1, "seed-all-four", "no free quota, a long queue, room elsewhere and few there", saw=saw)
