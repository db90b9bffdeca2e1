"""What Dure knows before it sees a fleet: accelerator classes, models, workload templates.

Filled from YAML by `dure.files.builtin`; users add their own entries and override ours by name.
"""

from __future__ import annotations

import difflib

import msgspec

from dure.model.accelerator import AcceleratorProfile
from dure.model.errors import InvalidInput
from dure.model.units import MiB, Seconds
from dure.model.workload import Workload


class ModelProfile(msgspec.Struct, frozen=True):
    """An AI model: `speed` is work per second on a class, relative to the first one named.

    `prompt_tokens` and `output_tokens` are those of a mean request to a language model, 0 for any other.
    """

    name: str
    parameters: float
    weights_mib: MiB
    load_s: Seconds
    speed: dict[str, float] = {}
    note: str = ""
    prompt_tokens: float = 0.0
    output_tokens: float = 0.0


class Catalogue(msgspec.Struct, frozen=True):
    classes: dict[str, AcceleratorProfile]
    models: dict[str, ModelProfile] = {}
    templates: dict[str, Workload] = {}

    def accelerator(self, name: str) -> AcceleratorProfile:
        found = self.classes.get(name)
        if found is None:
            raise InvalidInput(f"unknown accelerator class '{name}'", remedy=nearest(name, self.classes))
        return found

    def load_s(self, model: str) -> Seconds:
        """Time to load the weights of `model`; an unknown model is taken to load at once."""
        known = self.models.get(model)
        return known.load_s if known else 0.0

    def weights_mib(self, model: str) -> MiB:
        known = self.models.get(model)
        return known.weights_mib if known else 0


def nearest(name: str, known: dict[str, object] | dict[str, AcceleratorProfile]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"Did you mean '{close[0]}'?" if close else f"Known: {', '.join(sorted(known))}"
