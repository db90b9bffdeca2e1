"""Compiled kernels are shared by checkouts with the same sources, and by no others."""

from __future__ import annotations

from pathlib import Path

from tests.compiled import known_by, without_broken

KERNEL = "from dure.pack.sizes import (\n    WIDE,\n)\n"


def sources(folder: Path, kernel: str = KERNEL, units: str = "H = 1\n") -> Path:
    sizes = "from dure.model import units\n"
    texts = {"pack/kernel": kernel, "pack/sizes": sizes, "model/units": units, "model/other": "A = 1\n"}
    for name, text in texts.items():
        path = folder / "dure" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def digest(folder: Path) -> str:
    return known_by(folder / "dure" / "pack" / "kernel.py", folder)


def test_a_kernel_is_known_in_another_folder_by_what_it_says_and_imports(tmp_path: Path) -> None:
    first = digest(sources(tmp_path / "a"))
    assert digest(sources(tmp_path / "b")) == first
    assert digest(sources(tmp_path / "c", kernel=KERNEL + "\n")) != first
    assert digest(sources(tmp_path / "d", units="H = 2\n")) != first, "a constant two imports away is in the kernel"


def test_a_change_that_a_kernel_cannot_see_leaves_it_known(tmp_path: Path) -> None:
    first = digest(sources(tmp_path / "a"))
    other = sources(tmp_path / "b")
    (other / "dure" / "model" / "other.py").write_text("A = 2\n")
    assert digest(other) == first


def test_a_folder_with_a_file_that_was_cut_off_is_made_anew(tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for folder, end in ((whole, b"."), (broken, b"")):
        folder.mkdir()
        (folder / "kernel.nbi").write_bytes(b"index.")
        (folder / "kernel.1.nbc").write_bytes(b"code" + end)
        without_broken(folder)
    assert whole.is_dir()
    assert not broken.exists()
