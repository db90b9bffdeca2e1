"""What a container gets with its units: environment, mounts, device files. Pure; called by the plugin and the driver.

Every container learns its slice ids and limits in the same words whatever the hardware is. A virtual accelerator's
slice is a socket in a folder of its own: whoever has it mounted is that slice, nobody else can be.
"""

from __future__ import annotations

from collections.abc import Sequence

from dure.adapters.kubelet.device_plugin import DeviceNode, Injected, Mount
from dure.device.plugin.node import Mode, NodeConfig, Unit

INSIDE = "/run/dure"
SOCKET = "device.sock"
CONTROL = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")


def injected(units: Sequence[Unit], config: NodeConfig) -> Injected:
    """For one container that was given these units of one resource."""
    envs = {
        "DURE_SLICE": ",".join(unit.id for unit in units),
        "DURE_COMPUTE_MILLI": str(sum(unit.compute_milli for unit in units)),
        "DURE_MEMORY_MIB": str(sum(unit.memory_mib for unit in units)),
    }
    mounts: tuple[Mount, ...] = ()
    files: tuple[str, ...] = ()
    match units[0].device.mode:
        case Mode.VIRTUAL:
            envs["DURE_DEVICE"] = f"{INSIDE}/{units[0].id}/{SOCKET}"
            mounts = tuple(Mount(f"{INSIDE}/{unit.id}", f"{config.sockets}/{unit.id}") for unit in units)
        case Mode.MPS:
            envs |= _visible(units) | _mps(units, config)
            mounts = (Mount(config.mps_pipe, config.mps_pipe),)
            files = _files(units)
        case Mode.WHOLE | Mode.MIG | Mode.TIMESLICE:
            envs |= _visible(units)
            files = _files(units)
    return Injected(
        envs=envs,
        mounts=mounts,
        devices=tuple(DeviceNode(path, path, "rw") for path in files),
        annotations={"dure.dev/units": envs["DURE_SLICE"]},
    )


def _visible(units: Sequence[Unit]) -> dict[str, str]:
    return {"NVIDIA_VISIBLE_DEVICES": ",".join(dict.fromkeys(unit.uuid for unit in units))}


def _mps(units: Sequence[Unit], config: NodeConfig) -> dict[str, str]:
    percent = max(1, sum(unit.compute_milli for unit in units) // 10)
    memory = sum(unit.memory_mib for unit in units)
    limit = {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={memory}M"} if memory else {}
    return {
        "CUDA_MPS_PIPE_DIRECTORY": config.mps_pipe,
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(min(percent, 100)),
        **limit,
    }


def _files(units: Sequence[Unit]) -> tuple[str, ...]:
    own = [path for unit in units for path in unit.device.nodes]
    return tuple(dict.fromkeys([*own, *CONTROL])) if own else ()
