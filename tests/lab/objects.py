"""Kubernetes objects that the lab's tests create."""

from collections.abc import Callable

from lab.rest import Json

GPU_NODES = """
nodes:
- group: gpu
  count: 2
  instance_type: p4d.24xlarge
  zone: lab-b
  gpu: {count: 4}
"""


def pod(name: str, *, gpus: int = 1, annotations: dict[str, str] | None = None) -> Json:
    limits = {"limits": {"nvidia.com/gpu": str(gpus)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "lab/none", "resources": limits}],
        },
    }


def job(name: str, *, run_seconds: str, queue: str | None = None, gpus: int = 1) -> Json:
    template = pod(name, gpus=gpus, annotations={"lab.dure.dev/run-seconds": run_seconds})
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "template": {"metadata": {"annotations": template["metadata"]["annotations"]}, "spec": template["spec"]}
        },
    }


def phase_is(phase: str) -> Callable[[Json], bool]:
    """A condition for `Api.until`."""
    return lambda found: bool(found["status"].get("phase") == phase)


def has_condition(kind: str) -> Callable[[Json], bool]:
    """A condition for `Api.until`: the object's own condition `kind` is true."""

    def holds(found: Json) -> bool:
        conditions = found.get("status", {}).get("conditions", ())
        return any(c["type"] == kind and c["status"] == "True" for c in conditions)

    return holds
