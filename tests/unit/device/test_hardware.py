"""A node's hardware through the command line: listed, cut whole or not at all, and written down for the plugin."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dure.adapters.nvidia.nvml import NvmlDevices
from dure.cli.device import command
from dure.device.hardware import carve
from dure.device.plugin.node import Mode, read_node, units
from dure.model.errors import Conflict, InvalidInput, NotFound
from tests.contract.fake_nvml import FakeNvml, NVMLError

MPS = """#!{python}
import pathlib, sys
kept = pathlib.Path(__file__).with_name("kept")
words = sys.stdin.read().split()
if words[0] == "get_server_list":
    print("4021")
elif words[0] == "get_client_list":
    print("77")
elif words[0] == "get_active_thread_percentage":
    print(kept.read_text() if kept.exists() else "100.0")
elif words[0] == "set_active_thread_percentage":
    kept.write_text(words[2])
elif words[0] != "set_device_pinned_mem_limit" or words[1:] != ["4021", "0", "512M"]:
    sys.exit("unknown command")
"""


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


def ask(*argv: str) -> Result:
    return CliRunner().invoke(command, list(argv), catch_exceptions=False)


def sizes_of(library: FakeNvml, device: str = "GPU-0") -> list[int]:
    return sorted(one.slices for one in NvmlDevices(library).fetch_slices(device))


def test_a_cut_is_made_once_and_listed(library: FakeNvml) -> None:
    assert [one["profile"] for one in table(ask("carve", "GPU-0", "2", "3", "1"))] == ["3g.19gb", "2g.10gb", "1g.5gb"]
    before = NvmlDevices(library).fetch_slices("GPU-0")
    ask("carve", "GPU-0", "1", "2", "3")
    assert NvmlDevices(library).fetch_slices("GPU-0") == before
    listed = json.loads(ask("list", "--json").output)
    assert [(one["id"], one["mig"], one["busy"]) for one in listed] == [("GPU-0", True, None), ("GPU-1", False, 0.37)]
    assert {one["uuid"] for one in listed[0]["slices"]} == {"MIG-1", "MIG-2", "MIG-3"}
    assert [one["mig"] for one in table(ask("list"))] == ["3+2+1", "off"]


def test_another_cut_needs_to_be_asked_for_by_name(library: FakeNvml) -> None:
    port = NvmlDevices(library)
    carve(port, "GPU-0", [3, 3])
    with pytest.raises(Conflict, match=r"is cut into 3\+3"):
        carve(port, "GPU-0", [7])
    assert sizes_of(library) == [3, 3]
    carve(port, "GPU-0", [7], replace=True)
    assert sizes_of(library) == [7]


def test_a_cut_that_does_not_fit_changes_nothing(library: FakeNvml) -> None:
    port = NvmlDevices(library)
    carve(port, "GPU-0", [4, 2])
    with pytest.raises(NotFound, match="no profile of 5"):
        carve(port, "GPU-0", [5], replace=True)
    assert sizes_of(library) == [2, 4]
    with pytest.raises(NotFound):
        carve(port, "GPU-1", [5])
    assert [facts.mig for facts in port.fetch_devices()] == [True, False]


def test_a_busy_instance_keeps_the_cut_as_it_was(library: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    port = NvmlDevices(library)
    busy = carve(port, "GPU-0", [3, 2, 1])[-1]
    destroy = library.nvmlGpuInstanceDestroy

    def refused(instance: object) -> None:
        if getattr(instance, "id", 0) == busy.id:
            raise NVMLError(library.NVML_ERROR_IN_USE)
        destroy(instance)

    monkeypatch.setattr(library, "nvmlGpuInstanceDestroy", refused)
    with pytest.raises(Conflict):
        carve(port, "GPU-0", [7], replace=True)
    assert sizes_of(library) == [1, 2, 3]


@pytest.mark.parametrize("sizes", [[], [0], [4, 4], [7, 1]])
def test_sizes_that_no_device_has_are_refused(library: FakeNvml, sizes: list[int]) -> None:
    with pytest.raises(InvalidInput, match="7 together at most"):
        carve(NvmlDevices(library), "GPU-0", sizes)


def test_what_is_scanned_is_what_the_plugin_offers(library: FakeNvml, tmp_path: Path) -> None:
    carve(NvmlDevices(library), "GPU-0", [3, 2])
    path = tmp_path / "node.yaml"
    path.write_text(ask("scan", "--node", "n7", "--share", "mps", "--slices", "2").output)
    config = read_node(path)
    assert config.name == "n7"
    assert [device.mode for device in config.devices] == [Mode.MIG, Mode.MPS]
    assert [device.nodes for device in config.devices] == [("/dev/nvidia0",), ("/dev/nvidia1",)]
    offered = [(unit.resource, unit.uuid, unit.compute_milli, unit.memory_mib) for unit in units(config)]
    assert offered == [
        ("dure.dev/mig-3g.19gb", "MIG-1", 428, 19456),
        ("dure.dev/mig-2g.10gb", "MIG-2", 285, 9728),
        ("dure.dev/mps", "GPU-1", 500, 20480),
        ("dure.dev/mps", "GPU-1", 500, 20480),
    ]
    assert ask("scan").output.count("mode: whole") == 1


def test_a_node_without_devices_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(devices=0))
    with pytest.raises(NotFound, match="no NVIDIA device"):
        ask("scan")


def test_a_device_that_is_cut_into_nothing_has_nothing_to_offer(library: FakeNvml) -> None:
    NvmlDevices(library).set_mig("GPU-1", True)
    with pytest.raises(Conflict, match="GPU-1 is set to MIG and cut into nothing"):
        ask("scan")


def test_shares_of_the_next_mps_clients_are_set_through_the_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-cuda-mps-control"
    program.write_text(MPS.format(python=sys.executable))
    program.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert json.loads(ask("mps", "--json").output) == [{"server": 4021, "share": 100.0, "clients": [77]}]
    assert table(ask("mps", "--share", "25", "--memory", "512")) == [
        {"server": "4021", "share": "25 %", "clients": "77"}
    ]


def table(result: Result) -> list[dict[str, str]]:
    head, *rows = [line.split("  ") for line in result.output.splitlines()]
    names = [name.strip() for name in head if name.strip()]
    return [dict(zip(names, [cell.strip() for cell in row if cell.strip()], strict=True)) for row in rows]
