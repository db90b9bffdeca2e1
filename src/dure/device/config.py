"""The device daemon's file: which tenants and models, what was promised to each, which goals the device has."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from pathlib import Path

import msgspec

from dure.adapters.torch.code import code_of
from dure.device.foreign import Foreign
from dure.files.plain import read_as
from dure.model.errors import InvalidInput
from dure.share.choose import DEFAULT, Goals, check
from dure.share.interference import App
from dure.share.policies import ENTRY_POINTS, POLICIES, Rank
from dure.share.promise import Promise

AUTO = "auto"
"""Not a policy: let the goals choose one. Not a device: a GPU where there is one."""
CPU = "cpu"
CUDA = re.compile(r"cuda(?::(\d{1,3}))?")


class TenantConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`memory_mib` 0 means no limit; `reserved` is a part of the device that is kept for a critical tenant, and
    `reserved_mib` memory that nobody else gets, also before this one has come.

    `bandwidth` is the part of the memory bandwidth it uses while the whole device runs it: a squad that wants more
    than there is shares it by weight. `load` is the part of its time with a request inside. Both count when the next
    tenant asks to come in.
    """

    name: str
    model: str
    segments: int = 8
    promise: Promise = Promise()
    weight: float = 1.0
    memory_mib: int = 0
    reserved: float = 0.0
    reserved_mib: int = 0
    timeout_ms: float = 10_000.0
    batch: bool = False
    bandwidth: float = 0.0
    load: float = 1.0
    limit: float = 0.0
    """The most of the device it may use, also when others idle; 0 means no such limit."""
    exact: bool = True
    """PyTorch on a CPU computes with one thread: with another number its answers have other last bits."""
    code: bool = False
    """Its model is Python code, `FILE.py:FUNCTION` or `PACKAGE.MODULE:FUNCTION`, which its process runs."""


class DeviceConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tenants: tuple[TenantConfig, ...]
    name: str = "device-0"
    policy: str = AUTO
    goals: Goals = DEFAULT
    device: str = AUTO
    """`cpu`, `cuda` or `cuda:N`, or `auto`: a GPU where there is one that can be used."""
    cores: int = 0
    """Threads to share out on a CPU; 0 means all of this machine."""
    memory_mib: int = 0
    """Memory for all tenants together; 0 means that it is not counted."""
    admission: bool = True
    """Turn away a tenant whose promise cannot be kept beside those before it."""
    second_row: bool = True
    """On a CPU, tenants that would wait run on what the others leave."""


def app_of(tenant: TenantConfig) -> App:
    """What runs, as equation 1 knows it. Who draws much of the memory bandwidth is expected to disturb and to be
    disturbed more, until the pair has been seen."""
    return App(tenant.model, memory=tenant.bandwidth or None)


def known_policies() -> dict[str, Rank]:
    """The built-in policies and those that installed packages add. A built-in name cannot be replaced."""
    found = dict(POLICIES)
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda p: p.name):
        found.setdefault(point.name, Foreign(point))
    return found


def gpu_index(device: str) -> int:
    """The number of the GPU that is asked for by name."""
    found = CUDA.fullmatch(device)
    if found is None:
        raise InvalidInput(f"no device '{device[:40]}'", remedy=f"Known: {AUTO}, {CPU}, cuda, cuda:0, cuda:1, ...")
    return int(found[1] or 0)


def read_config(path: Path) -> DeviceConfig:
    """The checked configuration; `InvalidInput` says what and where."""
    return validated(read_as(path, DeviceConfig, "a device file", "See docs/share.md for the device file."), path)


def validated(config: DeviceConfig, path: Path | None = None) -> DeviceConfig:
    """The same configuration if it makes sense."""
    where = str(path or "device")
    names = [tenant.name for tenant in config.tenants]
    if len(set(names)) != len(names) or not names:
        raise InvalidInput("every tenant needs a name of its own, and there must be one", where=where)
    if config.device not in (AUTO, CPU):
        gpu_index(config.device)
    policies = known_policies()
    check(config.goals, list(policies))
    if config.policy != AUTO and config.policy not in policies:
        raise InvalidInput(
            f"no sharing policy '{config.policy}'",
            where=where,
            remedy=f"Known: {AUTO}, {', '.join(sorted(policies))}.",
        )
    if sum(tenant.reserved for tenant in config.tenants) > 1.0:
        raise InvalidInput("reservations exceed the device", where=where, remedy="Let `reserved` sum to at most 1.")
    if 0 < config.memory_mib < (kept_mib := sum(tenant.reserved_mib for tenant in config.tenants)):
        raise InvalidInput(
            f"{kept_mib} MiB are reserved of {config.memory_mib}", where=where, remedy="Reserve less, or give more."
        )
    for tenant in config.tenants:
        if tenant.memory_mib < 0 or tenant.reserved_mib < 0:
            raise InvalidInput(
                "memory cannot be negative", where=f"{where}: tenant {tenant.name}", remedy="Give 0 or more MiB."
            )
        if not (0.0 <= tenant.bandwidth <= 1.0 and 0.0 < tenant.load <= 1.0):
            raise InvalidInput(
                "`bandwidth` and `load` are parts of one",
                where=f"{where}: tenant {tenant.name}",
                remedy="Give 0 to 1.",
            )
        if not 0.0 <= tenant.limit <= 1.0:
            raise InvalidInput(
                "`limit` is a part of one", where=f"{where}: tenant {tenant.name}", remedy="Give 0 to 1."
            )
        _check_model(tenant, f"{where}: tenant {tenant.name}")
    return config


def _check_model(tenant: TenantConfig, where: str) -> None:
    code = code_of(tenant.model)
    if code is not None and not tenant.code:
        raise InvalidInput(
            f"model '{tenant.model}' is code, which the tenant's process would run",
            where=where,
            remedy="Give `code: true` if you trust it, or a file: `.onnx` or `.pt2`.",
        )
    if code is None and tenant.code:
        raise InvalidInput(
            f"model '{tenant.model}' names no code", where=where, remedy="Give FILE.py:FUNCTION or MODULE:FUNCTION."
        )
    file = Path(tenant.model) if code is None else code.file
    if file is not None and not file.is_file():
        raise InvalidInput(f"model '{file}' is not there", where=where)
