"""The command line: one small file per command or group, loaded only when it is called.

`registry` lists what there is; `output` prints tables, JSON and YAML; `client` talks to the plane.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of `dure`: run the command, turn Dure's errors into one message and an exit code."""
    from dure.cli.root import run

    sys.exit(run(sys.argv[1:]))
