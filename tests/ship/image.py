"""The container image, built for real where there is no registry: `make image-try` (buildah, debootstrap, root).

The base is made of Debian's own packages, the rest by the Containerfile as it is. What comes out is an archive in
build/image that `tests/lab/test_image.py` starts on a real node.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import dure

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "image"
ARCHIVE = FOLDER / "dure.tar"
NAME = f"localhost/dure:{dure.__version__}"
BASE = "localhost/python:3.11-slim"
PACKAGES = "python3,python3-venv,python-is-python3,ca-certificates"
TRUSTED = Path("/etc/ssl/certs/ca-certificates.crt")


def why_not() -> str:
    """One line; empty where it can be built."""
    missing = [tool for tool in ("buildah", "debootstrap") if shutil.which(tool) is None]
    if missing:
        return f"{', '.join(missing)} not installed: no image is built here"
    return "" if os.geteuid() == 0 else "building an image without a registry needs root"


def main() -> None:
    if why := why_not():
        sys.exit(why)
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not _found("inspect", "--type", "image", BASE):
        _make_base(FOLDER / "rootfs")
    _buildah("bud", "--isolation", "chroot", "--build-arg", f"BASE={BASE}", "-f", "Containerfile", "-t", NAME, ".")
    ARCHIVE.unlink(missing_ok=True)
    _buildah("push", "-q", NAME, f"docker-archive:{ARCHIVE}:{NAME}")
    print(f"{NAME} in {ARCHIVE}, {ARCHIVE.stat().st_size / 2**20:.0f} MiB")


def _make_base(rootfs: Path) -> None:
    shutil.rmtree(rootfs, ignore_errors=True)
    subprocess.run(["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(rootfs)], check=True)
    # Packages may come through a mirror that this machine trusts.
    shutil.copy(TRUSTED, rootfs / TRUSTED.relative_to("/"))
    container = _buildah("from", "scratch").strip()
    _buildah("add", "-q", container, str(rootfs), "/")
    _buildah("commit", "-q", container, BASE)
    _buildah("rm", container)
    shutil.rmtree(rootfs)


def _command(*words: str) -> list[str]:
    """Its own storage, so that nothing of it stays on the machine when build/ is removed."""
    storage = ["--root", str(FOLDER / "storage"), "--runroot", str(FOLDER / "run"), "--storage-driver", "vfs"]
    return ["buildah", *storage, *words]


def _buildah(*words: str) -> str:
    done = subprocess.run(_command(*words), cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def _found(*words: str) -> bool:
    return subprocess.run(_command(*words), capture_output=True).returncode == 0


if __name__ == "__main__":
    main()
