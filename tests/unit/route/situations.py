"""Small queues and jobs for the tests of routing."""

from __future__ import annotations

from dure.route.situation import Alternative, Candidate, Changes, Figures, Lane, Running, Situation, Waiting

GPU, CPU = "nvidia.com/gpu", "cpu"
ONE_GPU = {GPU: 1000, CPU: 4000}
FOUR_CPU = {CPU: 4000}


def light(
    run_gpu: float = 26.0, run_cpu: float = 90.0, *, name: str = "light", created_s: float = 100.0
) -> Candidate:
    changes = Changes(resources={GPU: None}, env={"RUN_ENV": "cpu"})
    return Candidate(
        name,
        "research",
        "sd-5",
        (
            Alternative("t4", "user-gpu", "gpu", ONE_GPU, run_gpu),
            Alternative("cpu", "user-cpu", "cpu", FOUR_CPU, run_cpu, changes),
        ),
        created_s,
    )


def heavy() -> Candidate:
    return Candidate("heavy", "research", "sd-30", (Alternative("t4", "user-gpu", "gpu", ONE_GPU, 30.0),), 100.0)


def situation(gpu_waiting: int = 0, cpu_running: int = 0, gpu_running: int = 4) -> Situation:
    gpu = Lane(
        "gpu",
        {GPU: 4000, CPU: 40_000},
        tuple(Running(f"g{n}", ONE_GPU, 110.0 + n) for n in range(gpu_running)),
        tuple(Waiting(f"w{n}", ONE_GPU, 30.0, 50.0 + n) for n in range(gpu_waiting)),
    )
    cpu = Lane("cpu", {CPU: 24_000}, tuple(Running(f"c{n}", FOUR_CPU, 150.0) for n in range(cpu_running)))
    figures = {
        "gpu": Figures("gpu", {GPU: (4 - gpu_running) * 1000, CPU: 24_000}, gpu_waiting, gpu_running),
        "cpu": Figures("cpu", {CPU: 24_000 - 4000 * cpu_running}, 0, cpu_running),
    }
    return Situation(100.0, {"gpu": gpu, "cpu": cpu}, figures)
