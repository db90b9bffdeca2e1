"""Units of systemd: they are read without complaint, keep processes small, and call commands that exist."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from dure.cli.root import dure

UNITS = Path(__file__).resolve().parents[2] / "deploy/systemd"
FOLDER = "/opt/dure/bin"
# What systemd itself makes of each: 0 is locked up, 10 is wide open. Devices and the kubelet's folder cost a point.
EXPOSED = {"dure-plane": 1.5, "dure-agent@": 1.5, "dure-device": 2.0, "dure-device-plugin": 2.5}
# Whoever comes later must not loosen these.
KEPT = (
    "NoNewPrivileges=yes",
    "ProtectSystem=strict",
    "ProtectHome=yes",
    "CapabilityBoundingSet=",
    "LockPersonality=yes",
)

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed: units are only read as text"
)


def units() -> list[Path]:
    return sorted(UNITS.glob("*.service"))


def placed(folder: Path) -> list[Path]:
    """The units as an instance of each would be loaded, with the command of this environment."""
    for unit in units():
        text = unit.read_text("utf-8").replace(FOLDER, str(Path(sys.executable).parent))
        (folder / unit.name.replace("@.", "@seoul.")).write_text(text, encoding="utf-8")
    return sorted(folder.iterdir())


@needs_systemd
def test_systemd_has_nothing_to_say_about_the_units(tmp_path: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *map(str, placed(tmp_path))], capture_output=True, text=True
    )
    ours = [line for line in done.stderr.splitlines() if "dure" in line]
    assert (done.returncode, ours) == (0, [])


@needs_systemd
def test_systemd_finds_the_units_locked_up(tmp_path: Path) -> None:
    for unit in placed(tmp_path):
        done = subprocess.run(
            ["systemd-analyze", "security", "--offline=yes", "--no-pager", str(unit)], capture_output=True, text=True
        )
        found = re.search(r"Overall exposure level for .*: ([0-9.]+)", done.stdout)
        assert found is not None, done.stdout + done.stderr
        assert float(found[1]) <= EXPOSED[unit.stem.replace("@seoul", "@")], unit.name


@pytest.mark.parametrize("unit", units(), ids=lambda unit: unit.name)
def test_a_unit_keeps_its_process_small(unit: Path) -> None:
    lines = unit.read_text("utf-8").splitlines()
    assert [line for line in KEPT if line not in lines] == []
    assert "DynamicUser=yes" in lines or "User=root" in lines, "somebody has decided"


@pytest.mark.parametrize("unit", units(), ids=lambda unit: unit.name)
def test_a_unit_calls_a_command_that_exists_with_options_that_exist(unit: Path) -> None:
    text = unit.read_text("utf-8")
    [line] = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    program, *words = line.split()
    assert program == f"{FOLDER}/dure"
    command: click.Command = dure
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words.pop(0))
        assert found is not None
        command = found
    known = {name for parameter in command.params for name in parameter.opts}
    given = re.findall(
        r"(?<=\s|=)-{1,2}[a-z][a-z-]*", " ".join([" ", *words, *re.findall(r"DURE_OPTIONS=(.*)\"", text)])
    )
    assert given
    assert set(given) <= known
