"""The kind Policy: a named set of goals and weights for one verb."""

from __future__ import annotations

from typing import Any

from dure.files.reading import Reading
from dure.files.shapes import NAME, Choice, Flag, Key, MapOf, Record, Schema, Shape, Whole
from dure.files.yaml import Value
from dure.model.policy import Policy, Verb


class Setting(Shape):
    """A number, a word or a flag; the algorithm that reads it knows which."""

    kind = "a number, text, true or false"

    def read(self, value: Value, path: str, into: Reading) -> Any:
        if value.data is None or isinstance(value.data, dict | list):
            return self.mismatch(value, path, into)
        return value.data

    def schema(self) -> Schema:
        return {"type": ["number", "string", "boolean"]}


SPEC_KEYS = (
    Key("verb", Choice(Verb), "Which decisions it steers.", required=True),
    Key("algorithm", NAME, "Which algorithm of that verb; 'default' if left out."),
    Key("settings", MapOf(Setting()), "Settings of the algorithm, which refuses those it does not know."),
    Key("version", Whole(1), "Number of this version; the plane counts it up."),
    Key("paused", Flag(), "Whether the verb is to decide nothing for now."),
)

POLICY = Record(
    "A named set of goals and weights.", (Key("name", NAME, "The policy's name.", required=True), *SPEC_KEYS), Policy
)
SPEC = Record("Goals and weights of one verb.", SPEC_KEYS, dict)
