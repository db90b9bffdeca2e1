"""Build what the lab needs from published Go modules, once per machine.

Called by `python -m lab build`, `make lab` and every `Lab` that starts. `ensure` answers with paths into the cache;
it builds only what is missing there, after asking for disk, and tells how long it will take.
"""

import os
import platform
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from lab.cache import Cache, default_root
from lab.errors import BuildFailed, GoMissing, TooLittleDisk
from lab.process import spawn
from lab.progress import Progress, duration, say
from lab.versions import ARTIFACTS, BY_NAME, GO_AT_LEAST, MIB, Artifact

TELL_EVERY_S = 15.0
NICENESS = 5
# The Go command's own folders plus what it unpacks while linking.
SPARE_MIB = 300

Tell = Callable[[str], None]
Builder = Callable[[Artifact, Path, Tell], None]


def ensure(
    names: Iterable[str] | None = None,
    *,
    cache: Cache | None = None,
    builder: Builder | None = None,
    free_mib: Callable[[Path], int] | None = None,
    tell: Tell = say,
) -> dict[str, Path]:
    """The cache folder of each named artifact (when None: of all but those on demand), built first where missing."""
    cache = cache or Cache(default_root(), platform.machine())
    wanted = set(names) if names is not None else {artifact.name for artifact in ARTIFACTS if not artifact.on_demand}
    chosen = [artifact for artifact in ARTIFACTS if artifact.name in wanted]
    if unknown := wanted - {artifact.name for artifact in chosen}:
        known = ", ".join(artifact.name for artifact in ARTIFACTS)
        raise BuildFailed(f"the lab has no artifact {', '.join(sorted(unknown))}; it has {known}")
    missing = [artifact for artifact in chosen if not cache.holds(artifact)]
    if missing:
        _build(missing, cache, builder or go_build, free_mib or _free_mib, tell)
    return {artifact.name: cache.entry(artifact) for artifact in chosen}


def lacking(names: Iterable[str], *, cache: Cache | None = None) -> list[str]:
    """Those of the named artifacts that would have to be built first."""
    cache = cache or Cache(default_root(), platform.machine())
    return [name for name in names if not cache.holds(BY_NAME[name])]


def go_problem() -> str | None:
    """Why the lab cannot be built here, in one line; None when it can."""
    if shutil.which("go") is None:
        return "Go is not installed"
    found = re.match(r"go(\d+)\.(\d+)", _go_env("GOVERSION"))
    if found is None or (int(found[1]), int(found[2])) < GO_AT_LEAST:
        needed = ".".join(map(str, GO_AT_LEAST))
        return f"Go {needed} or newer is needed, {_go_env('GOVERSION') or 'an unknown version'} is installed"
    return None


def go_build(artifact: Artifact, folder: Path, tell: Tell) -> None:
    """The builder used outside tests: `go build` or a copy of files from the module."""
    if problem := go_problem():
        raise GoMissing(f"cannot build {artifact.name}: {problem}; install Go, or run `make test LAB=0`")
    if artifact.files:
        _copy_files(artifact, folder)
        return
    packages = artifact.package.split()
    command = ["go", "build", "-v", "-trimpath", "-ldflags", artifact.family.ldflags]
    if artifact.family.tags:
        command += ["-tags", ",".join(artifact.family.tags)]
    command += ["-o", str(folder / artifact.name) if len(packages) == 1 else f"{folder}/", *packages]
    _run_go(artifact, command, tell)


def require_disk(
    missing: Iterable[Artifact], needs: Mapping[Path, Callable[[Artifact], int]], free_mib: Callable[[Path], int]
) -> None:
    """Refuse to start a build that would not fit; folders on one file system share its free space."""
    artifacts = list(missing)
    by_device: dict[int, list[tuple[Path, int]]] = {}
    for path, need in needs.items():
        amount = sum(need(artifact) for artifact in artifacts)
        by_device.setdefault(_device(path), []).append((path, amount))
    for shares in by_device.values():
        needed = sum(amount for _, amount in shares) + SPARE_MIB
        free = free_mib(_existing(shares[0][0]))
        if free < needed:
            folders = " and ".join(f"{path} ({amount} MiB)" for path, amount in shares)
            raise TooLittleDisk(
                f"building {', '.join(a.name for a in artifacts)} needs about {needed} MiB for {folders}, "
                f"{free} MiB are free; make room, or point DURE_CACHE, GOCACHE and GOMODCACHE to a larger disk"
            )


def _build(
    missing: list[Artifact], cache: Cache, builder: Builder, free_mib: Callable[[Path], int], tell: Tell
) -> None:
    require_disk(missing, _disk_needs(cache), free_mib)
    progress = Progress(missing, os.cpu_count() or 1)
    for artifact in missing:
        began = time.monotonic()
        tell(progress.line(f"building {artifact.family.version}"))

        def tell_more(what: str, began: float = began) -> None:
            tell(progress.line(what, time.monotonic() - began))

        with cache.locked(artifact):
            if not cache.holds(artifact):
                with cache.writing(artifact) as folder:
                    builder(artifact, folder, tell_more)
        elapsed = time.monotonic() - began
        progress.finished(elapsed)
        tell(f"lab: {artifact.name} built in {duration(elapsed)}")


def _disk_needs(cache: Cache) -> dict[Path, Callable[[Artifact], int]]:
    needs: dict[Path, Callable[[Artifact], int]] = {cache.root: lambda artifact: artifact.kept_mib}
    if shutil.which("go"):
        # About a third of what a build needs are module sources, the rest compiled packages.
        needs[Path(_go_env("GOMODCACHE"))] = lambda artifact: artifact.scratch_mib // 3
        needs[Path(_go_env("GOCACHE"))] = lambda artifact: artifact.scratch_mib * 2 // 3
    return needs


def _run_go(artifact: Artifact, command: list[str], tell: Tell) -> None:
    process = spawn(
        command,
        stdout=subprocess.PIPE,
        env={**_go_environment(), **({"CGO_ENABLED": "1"} if artifact.family.cgo else {})},
        cwd=artifact.family.folder,
        niceness=NICENESS,
    )
    lines: list[str] = []
    assert process.stdout is not None
    output = process.stdout
    reader = threading.Thread(target=lambda: lines.extend(line.decode(errors="replace") for line in output))
    reader.start()
    while True:
        try:
            code = process.wait(TELL_EVERY_S)
            break
        except subprocess.TimeoutExpired:
            tell(f"{len(lines)} packages fetched or compiled")
    reader.join()
    output.close()
    if code != 0:
        raise BuildFailed(f"`{' '.join(command)}` in {artifact.family.folder} failed:\n" + "".join(lines[-20:]))


def _copy_files(artifact: Artifact, folder: Path) -> None:
    def go(*arguments: str) -> str:
        done = subprocess.run(
            ["go", *arguments], cwd=artifact.family.folder, env=_go_environment(), capture_output=True, text=True
        )
        if done.returncode != 0:
            raise BuildFailed(f"`go {' '.join(arguments)}` failed: {done.stderr.strip()}")
        return done.stdout.strip()

    go("mod", "download", artifact.family.module)
    root = Path(go("list", "-m", "-f", "{{.Dir}}", artifact.family.module))
    for pattern in artifact.files:
        found = sorted(root.glob(pattern))
        if not found:
            raise BuildFailed(f"{artifact.family.module} {artifact.family.version} has no {pattern}")
        for path in found:
            shutil.copyfile(path, folder / path.name)


def _go_environment() -> dict[str, str]:
    # GOTOOLCHAIN: a module that wants a newer Go fails at once instead of downloading one.
    return {**os.environ, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false"}


def _go_env(name: str) -> str:
    done = subprocess.run(["go", "env", name], capture_output=True, text=True, env=_go_environment())
    return done.stdout.strip()


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _device(path: Path) -> int:
    return _existing(path).stat().st_dev


def _free_mib(path: Path) -> int:
    return shutil.disk_usage(path).free // MIB
