"""The kind Policy: a named set of goals and weights for one verb."""

from __future__ import annotations

from typing import Any

from dure.files.quantities import DURATION, INTENSITY, PRICE_HOUR
from dure.files.reading import Reading
from dure.files.shapes import (
    NAME,
    Choice,
    Flag,
    Key,
    ListOf,
    MapOf,
    Number,
    Quantity,
    Record,
    Schema,
    Shape,
    Text,
    Whole,
)
from dure.files.yaml import Value
from dure.model.policy import Goal, Policy, Term, Verb
from dure.model.workload import WorkloadType


class Setting(Shape):
    """A number, a word or a flag; the algorithm that reads it knows which."""

    kind = "a number, text, true or false"

    def read(self, value: Value, path: str, into: Reading) -> Any:
        if value.data is None or isinstance(value.data, dict | list):
            return self.mismatch(value, path, into)
        return value.data

    def schema(self) -> Schema:
        return {"type": ["number", "string", "boolean"]}


_GLOBS = ListOf(Text(r"[-a-z0-9*?.]+", "use letters, digits, '-', '.', '*' and '?'"), most=1000)

GOAL = Record(
    "What some workloads are to have; selectors that are left out match all.",
    (
        Key("tenants", _GLOBS, "Selector: names or globs of tenants."),
        Key("types", ListOf(Choice(WorkloadType)), "Selector: types of workloads."),
        Key("models", _GLOBS, "Selector: names or globs of models."),
        Key("minPriority", Whole(-1_000_000), "Selector: this priority or a higher one.", "min_priority"),
        Key("weights", MapOf(Number(most=1e6), keys=Term), "How much each term of a bill counts in the choice."),
        Key("clusters", _GLOBS, "Limit: only in clusters like these."),
        Key("regions", _GLOBS, "Limit: only in regions like these."),
        Key("spot", Flag(), "Limit: false keeps them off spot."),
        Key("maxCarbon", Quantity(INTENSITY), "Limit: mean intensity of the grid while they run.", "max_g_per_kwh"),
        Key("maxPrice", Quantity(PRICE_HOUR), "Limit: price per device, fleet's currency.", "max_price_micros"),
        Key("startWithin", Quantity(DURATION), "Promise: not deferred longer than this.", "start_within_s"),
    ),
    Goal,
)

SPEC_KEYS = (
    Key("verb", Choice(Verb), "Which decisions it steers.", required=True),
    Key("algorithm", NAME, "Which algorithm of that verb; 'default' if left out."),
    Key("settings", MapOf(Setting()), "Settings of the algorithm, which refuses those it does not know."),
    Key("goals", ListOf(GOAL, most=100), "What some workloads are to have, of verb place; all that match hold."),
    Key("version", Whole(1), "Number of this version; the plane counts it up."),
    Key("paused", Flag(), "Whether the verb is to decide nothing for now."),
)

POLICY = Record(
    "A named set of goals and weights.", (Key("name", NAME, "The policy's name.", required=True), *SPEC_KEYS), Policy
)
SPEC = Record("Goals and weights of one verb.", SPEC_KEYS, dict)
