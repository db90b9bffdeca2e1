"""One name for each thing: what users meet by name is searched for words that another word of Dure's stands for.

The words are those of docs/concepts; a name of somebody else's format, which we only carry, is listed with its owner.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator

import click
import msgspec

import dure.api
import dure.model
from dure.cli.root import dure as commands
from handbook.figures import gateway, kept, plane

INSTEAD = {
    "job": "workload", "task": "workload", "site": "cluster", "team": "tenant", "gpu": "device", "card": "device",
    "accelerator": "device or class", "partition": "slice", "assignment": "placement",
}  # fmt: skip
FOREIGN = {
    "dure.model.decision.RouteJob.job": "Kubernetes",
    "dure.model.offer.InstanceOffer.gpu": "the cloud's list of instances",
}
# Kubernetes Jobs have their own word; benchmarks play published traces of jobs and outages of sites.
ELSEWHERE = ("gateway", "bench")


def test_fields_of_the_model_and_the_api_use_the_words_of_dure() -> None:
    found = {name: word for name in _fields() if (word := _wrong(name.rpartition(".")[2]))}
    assert {name: word for name, word in found.items() if name not in FOREIGN} == {}
    assert found.keys() == FOREIGN.keys(), "the list is not longer than it must be"


def test_commands_and_their_options_use_the_words_of_dure() -> None:
    names = list(_options(commands, ()))
    assert len(names) > 200
    assert [name for name in names if name.split()[0] not in ELSEWHERE and _wrong(name)] == []


def test_metrics_use_the_words_of_dure() -> None:
    names = [family.name for family in plane()] + list(kept())
    assert len(names) > 30
    assert [name for name in names if _wrong(name)] == []
    assert all(family.name.startswith("dure_gateway_") for family in gateway())


def _wrong(name: str) -> str:
    words = (word.rstrip("s") for word in re.split(r"[_\W]+", name.lower()))
    return next((f"say {INSTEAD[word]}" for word in words if word in INSTEAD), "")


def _fields() -> Iterator[str]:
    for package in (dure.api, dure.model):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for name, kind in vars(importlib.import_module(module.name)).items():
                if inspect.isclass(kind) and issubclass(kind, msgspec.Struct) and kind.__module__ == module.name:
                    yield from (f"{module.name}.{name}.{field}" for field in kind.__struct_fields__)


def _options(command: click.Command, path: tuple[str, ...]) -> Iterator[str]:
    yield from (" ".join((*path, option)) for one in command.params for option in one.opts)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _options(below, (*path, name))
