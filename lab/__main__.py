"""`python -m lab build|up|status|down`: the lab from the command line, for developers."""

import argparse
import sys
from pathlib import Path

from lab import background
from lab.build import ensure, go_problem
from lab.errors import LabError
from lab.node import why_no_real_node
from lab.versions import ARTIFACTS, REAL_NODE


def main(argv: list[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    try:
        return int(options.run(options))
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1


def build(options: argparse.Namespace) -> int:
    problem = go_problem()
    if options.if_go and problem:
        print(f"lab: not built, tests on real clusters will be skipped: {problem}", file=sys.stderr)
        return 0
    built = ensure(options.artifact if options.artifact and not options.full else _buildable(options.full))
    if not options.if_go:
        for name, path in built.items():
            print(f"{name}\t{path}")
    return 0


def _buildable(full: bool) -> list[str]:
    """What can be used here: all, or all but what is built on demand only."""
    problem = why_no_real_node()
    if problem:
        print(f"lab: without real nodes, tests on them will be skipped: {problem}", file=sys.stderr)
    left_out = set(REAL_NODE) if problem else set()
    wanted = [artifact.name for artifact in ARTIFACTS if full or not artifact.on_demand]
    return [name for name in wanted if name not in left_out]


def up(options: argparse.Namespace) -> int:
    background.up(options.clusters, options.kueue, options.nodes)
    return status(options)


def hold(options: argparse.Namespace) -> int:
    background.hold(options.clusters, options.kueue, options.nodes)
    return 0


def status(_: argparse.Namespace) -> int:
    found = background.held()
    if found is None:
        print("no lab is up; start one with `python -m lab up`")
        return 1
    for name, path in found.kubeconfigs.items():
        print(f"{name}\texport KUBECONFIG={path}")
    for name, pid in found.pids.items():
        print(f"{name}\tpid {pid}\t{background.resident_mib(pid)} MiB")
    print(f"logs\t{found.folder}")
    return 0


def down(_: argparse.Namespace) -> int:
    print("the lab is down" if background.down() else "no lab was up")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("build", help="build what is missing in the cache")
    names = [artifact.name for artifact in ARTIFACTS]
    told = f"any of {', '.join(names)}; without one, all that `make test` needs"
    command.add_argument("artifact", nargs="*", metavar="ARTIFACT", help=told)
    command.add_argument("--if-go", action="store_true", help="quietly; without Go, say so in one line and succeed")
    command.add_argument("--full", action="store_true", help="also what only `make test-full` needs")
    command.set_defaults(run=build)
    for name, run, told in (
        ("up", up, "start a lab in the background"),
        ("hold", hold, "start a lab and keep it until SIGTERM"),
    ):
        command = commands.add_parser(name, help=told)
        command.add_argument("--clusters", nargs="+", default=["hub", "a", "b"], help="names (default: hub a b)")
        command.add_argument("--kueue", nargs="*", default=[], help="clusters that get Kueue")
        command.add_argument("--nodes", type=Path, help="YAML of fake nodes to add to every cluster")
        command.set_defaults(run=run)
    commands.add_parser("status", help="kubeconfigs, processes and memory").set_defaults(run=status)
    commands.add_parser("down", help="end it").set_defaults(run=down)
    return parser


if __name__ == "__main__":
    sys.exit(main())
