"""Which commands exist, what they are for, and which module holds them.

Kept apart from the commands so that `dure --help` imports none of them. Each module has a click command
named `command`.
"""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    module: str
    help: str
    section: str


RUN = "Run it, is it well"
ASK = "Ask and change"
BRAIN = "The same brain on another world"
PROCESS = "One group for each verb or process"
PEOPLE = "For people who run and pay"

COMMANDS: dict[str, Entry] = {
    "version": Entry("dure.cli.version", "Print the version.", RUN),
    "check": Entry("dure.cli.check", "Validate files without a server.", ASK),
    "schema": Entry("dure.cli.schema", "Print the JSON Schema of a kind, for editors.", ASK),
    "bench": Entry("dure.cli.bench", "Measure Dure against named opponents.", PEOPLE),
}
ALIASES: dict[str, tuple[str, ...]] = {}
