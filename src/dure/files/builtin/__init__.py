"""What ships with Dure: accelerator classes, models, workload templates, and the demo fleet (invented figures).

Plain YAML beside this file, read by the same readers as users' files; each is read once in a process.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from dure.files.catalogue import CLASSES_FILE, MODELS_FILE
from dure.files.kind import KINDS
from dure.files.problem import InvalidFile
from dure.files.reading import Reading
from dure.files.shapes import Record
from dure.files.workload import settle
from dure.files.yaml import parse
from dure.model.catalogue import Catalogue
from dure.model.fleet import Fleet
from dure.model.offer import InstanceOffer


@functools.cache
def catalogue() -> Catalogue:
    """Accelerator classes, models and workload templates by name."""
    (classes,) = _read("accelerators.yaml", CLASSES_FILE)
    (models,) = _read("models.yaml", MODELS_FILE)
    known = Catalogue(classes, models)
    templates = [settle(template, known) for template in _read("templates.yaml", KINDS["Workload"])]
    return Catalogue(classes, models, {template.name: template for template in templates})


@functools.cache
def demo_fleet() -> Fleet:
    """The four clusters of `dure up`; its figures are invented and marked so."""
    (fleet,) = _read("demo.yaml", KINDS["Fleet"])
    assert isinstance(fleet, Fleet)
    return fleet


@functools.cache
def instances() -> tuple[InstanceOffer, ...]:
    """Instance types that can be rented, for advice and for judging node pools."""
    (table,) = parse(text("instances.yaml"), "instances.yaml")
    return tuple(
        InstanceOffer(
            name=row["name"],
            class_name=row["class"],
            gpu=row["gpu"],
            devices=row["devices"],
            vcpus=row["vcpus"],
            memory_gib=row["memory"],
            usd_micros_per_h=round(row["usd"] * 1_000_000),
            efa=row.get("efa", 0),
            link_gbs=float(row.get("link", 16)),
            device_mib=catalogue().accelerator(row["class"]).memory_mib,
        )
        for row in table.plain()
    )


def text(name: str) -> str:
    """The YAML itself, for people who want to start from it."""
    return Path(__file__).with_name(name).read_text("utf-8")


def _read(name: str, record: Record) -> list[Any]:
    made = []
    for document in parse(text(name), name):
        reading = Reading(name, document)
        made.append(record.read(document, "", reading))
        if reading.problems:
            raise InvalidFile(reading.problems)
    return made
