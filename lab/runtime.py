"""The container runtime of a real node: runc, below the lab's own control group and without filters of system calls.

Run by containerd's shim instead of runc; `lab.node` writes the starter that names the group and the real binary.
One group above all containers of a node can be removed as a whole. Filters need libseccomp while runc is built,
which a machine with Go alone does not have, and containerd insists on one for every sandbox; trusted containers of
tests can do without.
"""

import json
import os
import sys
from pathlib import Path


def main(group: str, runc: str, arguments: list[str]) -> None:
    if "create" in arguments and "--bundle" in arguments:
        adapt(Path(arguments[arguments.index("--bundle") + 1]) / "config.json", group)
    os.execv(runc, [runc, *arguments])


def adapt(config: Path, group: str) -> None:
    spec = json.loads(config.read_text())
    linux = spec.setdefault("linux", {})
    linux.pop("seccomp", None)
    linux["cgroupsPath"] = f"/{group}/{linux.get('cgroupsPath', '').strip('/')}"
    config.write_text(json.dumps(spec))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
