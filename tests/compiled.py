"""Where the tests find compiled kernels: outside of the checkout, by what the sources say and not by where they lie.

A fresh clone then compiles only what differs from the last one on this machine. A kernel is known by its own file and
by all of ours that it imports, since the compiler copies what it calls and what constants say into it.
"""

from __future__ import annotations

import functools
import hashlib
import re
import shutil
from pathlib import Path

from numba.core import config
from numba.core.caching import UserProvidedCacheLocator

from lab.cache import default_root

SOURCES = Path(__file__).parents[1] / "src"
OURS = re.compile(r"^\s*(?:from|import) (dure(?:\.\w+)*)(?: import \(?([\w, \n]+))?", re.M)
FOLDER = default_root().parent / "kernels"


class ByContent(UserProvidedCacheLocator):  # type: ignore[misc]  # numba has no types
    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        path = Path(py_file)
        return f"{path.stem}-{known_by(path)}"

    @classmethod
    def from_function(cls, py_func: object, py_file: str) -> ByContent | None:
        if not Path(py_file).is_relative_to(SOURCES):
            return None
        without_broken(Path(config.CACHE_DIR) / cls.get_suitable_cache_subpath(py_file))
        found: ByContent | None = super().from_function(py_func, py_file)
        return found


def keep_compiled() -> None:
    """In this process only: what tests start compiles as it would for a user."""
    config.CACHE_DIR = str(FOLDER)
    others = "InTreeCacheLocator,UserWideCacheLocator"
    config.CACHE_LOCATOR_CLASSES = f"{ByContent.__module__}.{ByContent.__qualname__},{others}"


@functools.cache
def without_broken(folder: Path) -> None:
    """What was cut off in the middle is compiled anew; a whole file ends as a pickle does."""
    if any(not one.read_bytes().endswith(b".") for one in folder.glob("*.nb[ic]")):
        shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def known_by(path: Path, sources: Path = SOURCES) -> str:
    """A digest of a file and of everything of ours that it imports."""
    reached, ahead = {path}, [path]
    while ahead:
        new = imported(ahead.pop(), sources) - reached
        reached |= new
        ahead += new
    texts = sorted((str(one.relative_to(sources)), one.read_bytes()) for one in reached)
    return hashlib.sha256(repr(texts).encode()).hexdigest()[:16]


@functools.cache
def imported(path: Path, sources: Path = SOURCES) -> frozenset[Path]:
    found: set[Path] = set()
    for module, names in OURS.findall(path.read_text()):
        folder = sources / module.replace(".", "/")
        ends = [folder, *(folder / name.strip() for name in names.split(","))]
        found |= {one for end in ends for one in (end.with_suffix(".py"), end / "__init__.py") if one.is_file()}
    return frozenset(found)
