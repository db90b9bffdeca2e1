"""The bill of materials: what an installed Dure is made of, as CycloneDX, out of the lock file.

Called by `make dist`. Versions and digests are those of `requirements/run.txt`, so the bill says what an installation
with `--require-hashes` can hold and nothing else; licences and who needs whom come from the metadata of the packages,
where they are installed. Same lock and date, same bytes; a bill that breaks the schema is never written.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tomllib
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import NamedTuple
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import License
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
SCHEMA = SchemaVersion.V1_6
# A date is part of the bytes; without one from outside it is this, not now.
NO_DATE = 0


class Locked(NamedTuple):
    """One package of the lock file."""

    name: str
    version: str
    marker: str
    sha256: tuple[str, ...]


def read_lock(text: str) -> list[Locked]:
    """Every package of a requirements file with digests; one without a digest is a mistake."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        spec, *rest = line.split("--hash=")
        digests = tuple(sorted(each.strip().removeprefix("sha256:") for each in rest))
        wanted = Requirement(spec.strip())
        [pin] = wanted.specifier
        if pin.operator != "==" or not digests:
            raise ValueError(f"{wanted.name} is not pinned with a digest")
        found.append(Locked(canonicalize_name(wanted.name), pin.version, str(wanted.marker or ""), digests))
    return sorted(found)


def bill(lock: Iterable[Locked], project: dict[str, object], version: str, made: datetime) -> Bom:
    """The bill as the library's value."""
    packages = {each.name: _component(each) for each in lock}
    root = Component(
        name="dure",
        version=version,
        type=ComponentType.APPLICATION,
        bom_ref="dure",
        description=str(project["description"]),
        licenses=[_licence(str(project["license"]))],
        purl=PackageURL("pypi", name="dure", version=version),
    )
    pins = "".join(f"{component.purl}\n" for component in packages.values())
    bom = Bom(serial_number=uuid5(NAMESPACE_URL, f"{root.purl}\n{pins}"), components=packages.values())
    bom.metadata.component = root
    bom.metadata.timestamp = made
    needed = project["dependencies"]
    assert isinstance(needed, list)
    bom.register_dependency(root, _chosen(packages, needed, frozenset()))
    extras = _extras(needed)
    for name, component in packages.items():
        bom.register_dependency(component, _chosen(packages, _requires(name), extras.get(name, frozenset())))
    return bom


def written(bom: Bom) -> str:
    """The bill as JSON that keeps to its schema."""
    text = make_outputter(bom, OutputFormat.JSON, SCHEMA).output_as_string(indent=2)
    if (problem := JsonStrictValidator(SCHEMA).validate_str(text)) is not None:
        raise ValueError(f"the bill breaks the schema: {problem}")
    return text + "\n"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.sbom", description=__doc__)
    parser.add_argument("-o", "--out", type=Path, help="file to write; standard output if left out")
    options = parser.parse_args(argv)
    text = current()
    if options.out is None:
        sys.stdout.write(text)
        return 0
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(text, encoding="utf-8")
    return 0


def current() -> str:
    """The bill of this checkout."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lock = read_lock((ROOT / "requirements/run.txt").read_text("utf-8"))
    made = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", NO_DATE)), UTC)
    return written(bill(lock, project, _version(), made))


def _version() -> str:
    text = (ROOT / "src/dure/__init__.py").read_text("utf-8")
    found = re.search(r'__version__ = "([^"]+)"', text)
    assert found is not None
    return found[1]


def _component(each: Locked) -> Component:
    return Component(
        name=each.name,
        version=each.version,
        type=ComponentType("library"),
        bom_ref=f"{each.name}=={each.version}",
        purl=PackageURL("pypi", name=each.name, version=each.version),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in each.sha256],
        licenses=_licences(each),
        properties=[Property(name="dure:only-where", value=each.marker)] if each.marker else [],
    )


def _licences(each: Locked) -> list[License]:
    """What the package says of itself, when the very version of the lock is installed here."""
    try:
        told = metadata.metadata(each.name)
    except metadata.PackageNotFoundError:
        return []
    if told["Version"] != each.version:
        return []
    if expressions := told.get_all("License-Expression", []):
        return [_licence(expression) for expression in expressions]
    classified = [
        line.rsplit(" :: ", 1)[1] for line in told.get_all("Classifier", []) if line.startswith("License :: ")
    ]
    # A whole licence text in the old field is no name of a licence.
    named = [line for line in told.get_all("License", []) if 0 < len(line) < 80 and "\n" not in line]
    return [_licence(name) for name in (named or sorted(set(classified)))]


def _licence(text: str) -> License:
    return LicenseFactory().make_from_string(text)


def _requires(name: str) -> list[str]:
    try:
        return metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return []


def _extras(needed: Iterable[str]) -> dict[str, frozenset[str]]:
    """Which extras of a package Dure asks for."""
    return {canonicalize_name(Requirement(each).name): frozenset(Requirement(each).extras) for each in needed}


def _chosen(packages: dict[str, Component], needed: Iterable[str], extras: frozenset[str]) -> list[Component]:
    """Those of the wanted packages that the lock holds and that these extras ask for."""
    wanted = [Requirement(each) for each in needed]
    asked = [
        each
        for each in wanted
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *extras))
    ]
    names = sorted({canonicalize_name(each.name) for each in asked})
    return [packages[name] for name in names if name in packages]


if __name__ == "__main__":
    sys.exit(main())
