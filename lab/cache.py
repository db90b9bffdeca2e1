"""The folder of finished binaries, outside the checkout, shared by every checkout and every run on the machine.

Used by `lab.build`. Invariant: an entry counts only if its manifest is there and every file has the size and SHA-256
the manifest says; entries appear by one rename, so a build that was cut off leaves nothing that looks finished.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from lab.versions import Artifact

MANIFEST = "manifest.json"


def default_root() -> Path:
    """`$DURE_CACHE`, or `~/.cache/dure`; the lab has a folder in it."""
    base = os.environ.get("DURE_CACHE")
    return (Path(base) if base else Path.home() / ".cache" / "dure") / "lab"


def key(artifact: Artifact, machine: str) -> str:
    """Changes with the module's version, with any dependency and with how it is built."""
    digest = hashlib.sha256()
    folder = artifact.family.folder
    for part in (
        (folder / "go.mod").read_bytes(),
        (folder / "go.sum").read_bytes(),
        repr((artifact.package, artifact.files, artifact.family.ldflags, machine, *artifact.family.tags)).encode(),
    ):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:16]


class Cache:
    """Entries are folders named after the artifact, its version and its key."""

    def __init__(self, root: Path, machine: str) -> None:
        self.root = root
        self._machine = machine

    def entry(self, artifact: Artifact) -> Path:
        version = artifact.family.version
        return self.root / f"{artifact.name}-{version}-{key(artifact, self._machine)}"

    def holds(self, artifact: Artifact) -> bool:
        """Whether the entry is whole: every file the manifest names, with its size and checksum."""
        entry = self.entry(artifact)
        try:
            files = json.loads((entry / MANIFEST).read_text())["files"]
            return bool(files) and all(_fingerprint(entry / name) == seen for name, seen in files.items())
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return False

    @contextlib.contextmanager
    def locked(self, artifact: Artifact) -> Iterator[None]:
        """One builder per entry; the others wait here and then find it done."""
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / f".{self.entry(artifact).name}.lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    @contextlib.contextmanager
    def writing(self, artifact: Artifact) -> Iterator[Path]:
        """A scratch folder that becomes the entry when the block ends without an error. Hold the lock."""
        entry = self.entry(artifact)
        scratch = self.root / f".{entry.name}.partial"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        try:
            yield scratch
            _seal(scratch)
            shutil.rmtree(entry, ignore_errors=True)
            scratch.rename(entry)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _seal(folder: Path) -> None:
    files = {path.name: _fingerprint(path) for path in sorted(folder.iterdir())}
    with (folder / MANIFEST).open("w") as manifest:
        json.dump({"files": files}, manifest, indent=1)
        manifest.flush()
        os.fsync(manifest.fileno())


def _fingerprint(path: Path) -> dict[str, str | int]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"sha256": digest, "size": path.stat().st_size}
