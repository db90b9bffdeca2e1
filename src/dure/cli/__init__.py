"""The command line: one small file per command or group, loaded only when it is called.

`registry` lists what there is; `output` prints tables, JSON and YAML; `client` talks to the plane.
"""

from __future__ import annotations

import sys
from pathlib import Path

PLUGIN = "kubectl-dure"


def main() -> None:
    """Entry point of `dure` and of the kubectl plugin: run the command, turn errors into message and exit code."""
    from dure.cli.root import run

    called = Path(sys.argv[0]).name
    sys.exit(run(sys.argv[1:], "kubectl dure" if called == PLUGIN else "dure"))
