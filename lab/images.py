"""Container images made on the spot out of this machine's own files; nothing is fetched.

`sandbox` is the image every pod's sandbox runs and a small shell at once; `python` holds this interpreter with some
of its packages, at the same paths as here. Both answer with an archive that `ctr images import` takes. Used by
`lab.node` and by tests of workloads.
"""

import hashlib
import io
import json
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import distribution
from pathlib import Path

SANDBOX = "dure.lab/base:1"
PROGRAMS = ("sh", "sleep", "cat", "ls", "env")
PATH = "/usr/local/bin:/usr/bin:/bin"
LEFT_OUT = (
    "test",
    "tests",
    "idlelib",
    "tkinter",
    "turtledemo",
    "ensurepip",
    "lib2to3",
    "site-packages",
)

Files = dict[str, Path]


def sandbox(folder: Path) -> Path:
    """A shell and the few programs tests call; its entry point sleeps."""
    files: Files = {}
    for program in PROGRAMS:
        found = shutil.which(program)
        if found is not None:
            files |= {f"/bin/{program}": Path(found).resolve(), **libraries([Path(found)])}
    return archive(folder / "base.tar", SANDBOX, files, ["/bin/sleep", "infinity"])


def python(
    folder: Path, name: str, distributions: Iterable[str], sources: Mapping[str, Path], main: list[str]
) -> Path:
    """This Python with those distributions; `sources` are folders by their place, `main` its arguments."""
    prefix = Path(sys.base_prefix)
    library = Path(sysconfig.get_path("stdlib", vars={"installed_base": str(prefix)}))
    binary = Path(sys.executable).resolve()
    files: Files = {str(binary): binary, "/usr/bin/python3": binary}
    files |= dict(_tree(library, str(library)))
    for one in distributions:
        files |= _distribution(one)
    for place, source in sources.items():
        files |= dict(_tree(source, place))
    native = [binary, *(path for path in files.values() if ".so" in path.name)]
    files |= libraries(native)
    shell = shutil.which("sh") or "/bin/sh"
    files |= {"/bin/sh": Path(shell).resolve(), **libraries([Path(shell)])}
    paths = [str(_site()), *sources]
    env = {"PYTHONPATH": ":".join(paths), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
    return archive(folder / f"{name}.tar", f"dure.lab/{name}:1", files, [str(binary), *main], env)


def libraries(programs: Iterable[Path]) -> Files:
    """Every shared library these files load, by the name under which the loader looks for it."""
    paths = [str(path) for path in programs]
    if not paths:
        return {}
    printed = subprocess.run(["ldd", *paths], capture_output=True, text=True).stdout
    found = re.findall(r"^\s+(?:\S+ => )?(/\S+) \(0x", printed, re.MULTILINE)
    return {name: Path(name).resolve() for name in sorted(set(found))}


def archive(path: Path, name: str, files: Files, main: list[str], env: Mapping[str, str] | None = None) -> Path:
    """One layer with these files by their place in the image."""
    path.parent.mkdir(parents=True, exist_ok=True)
    layer = path.with_suffix(".layer")
    # Packages may share files by hard links; an image has none.
    with tarfile.open(layer, "w", dereference=True) as tar:
        for folder in ("/tmp", "/proc", "/sys", "/dev", "/etc"):
            tar.addfile(_folder(folder))
        for place, source in sorted(files.items()):
            tar.add(source.resolve(), place.lstrip("/"), recursive=False)
    with layer.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    settings = {
        "Entrypoint": main,
        "Env": [f"PATH={PATH}", *(f"{key}={value}" for key, value in (env or {}).items())],
    }
    config = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    with tarfile.open(path, "w") as tar:
        tar.add(layer, "layer.tar")
        _write(tar, "config.json", config)
        _write(tar, "manifest.json", [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}])
    layer.unlink()
    return path


def _site() -> Path:
    return Path(sysconfig.get_path("purelib"))


def _distribution(name: str) -> Files:
    found = distribution(name).files or ()
    paths = ((str(_site() / file), Path(str(file.locate()))) for file in found if ".." not in file.parts)
    return {place: path for place, path in paths if _useful(path) and path.is_file()}


def _tree(source: Path, place: str) -> Iterator[tuple[str, Path]]:
    for path in sorted(source.rglob("*")):
        inside = path.relative_to(source)
        if path.is_file() and not set(LEFT_OUT) & set(inside.parts) and _useful(path):
            yield f"{place}/{inside}", path


def _useful(path: Path) -> bool:
    """What this interpreter has compiled already need not be compiled at every start of a container."""
    return path.suffix != ".pyc" or path.stem.endswith(f".{sys.implementation.cache_tag}")


def _folder(place: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(place.lstrip("/"))
    info.type, info.mode = tarfile.DIRTYPE, 0o1777 if place == "/tmp" else 0o755
    return info


def _write(tar: tarfile.TarFile, name: str, value: object) -> None:
    data = json.dumps(value).encode()
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))
