"""What a benchmark measures is what runs: nothing of the deciding packages is there for benchmarks or tests alone."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
DECIDING = ("pack", "place", "share", "scale", "route")
# Opponents and twins, which only the comparison wants.
FOR_COMPARISON = {
    "dure.pack.ask.device_ask": "a demand of a trace; agents ask for pods",
    "dure.pack.ask.slice_ask": "a demand of a trace; agents ask for pods",
    "dure.pack.plain.step_cost": "the price of one step spelled out, against which the arrays are held",
    "dure.pack.relocate.move_for": "`relocate` and `Budget` as a replay uses them; agents ask for leave in between",
    "dure.place.eta.fresh_book": "a book that has learnt nothing, for the first forecast of a replay",
    "dure.place.eta.said_of": "a forecast as a benchmark files it; a plane files records",
    "dure.place.exact.linear_prices": "prices of the relaxed program, from which bounds are made",
    "dure.scale.keda.serve.query_value": "KEDA's reading of an answer, held against the real KEDA",
    "dure.share.interference.constant_phi": "a simpler equation, as an opponent",
    "dure.share.interference.neighbour_phi": "a simpler equation, as an opponent",
}


def test_every_module_that_decides_is_reached_by_a_command_that_is_no_benchmark() -> None:
    unreached = sorted(name for name in _modules() if _decides(name) and name not in _reached())
    assert unreached == []


def test_every_function_that_decides_is_named_by_something_that_runs() -> None:
    words = {name: re.findall(r"\w+", _modules()[name].read_text("utf-8")) for name in _reached()}
    unused = set()
    for module in filter(_decides, _reached()):
        for node in _tree(module).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                outside = any(node.name in of for name, of in words.items() if name != module and not _is_room(name))
                if not outside and words[module].count(node.name) == 1:
                    unused.add(f"{module}.{node.name}")
    assert unused == set(FOR_COMPARISON)


def _decides(module: str) -> bool:
    return module.split(".")[1:2] != [] and module.split(".")[1] in DECIDING and not _is_room(module)


def _is_room(module: str) -> bool:
    return _modules()[module].name == "__init__.py"


@cache
def _modules() -> dict[str, Path]:
    found = {}
    for path in sorted((SOURCE / "dure").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(_modules()[module].read_text("utf-8"))


@cache
def _reached() -> frozenset[str]:
    """Modules that a command imports, sooner or later, without going through a benchmark."""
    ahead = [name for name in _modules() if name.startswith("dure.cli") or name.endswith("__main__")]
    seen: set[str] = set()
    while ahead:
        name = ahead.pop()
        if name not in seen and not _measures(name):
            seen.add(name)
            ahead.extend(_imported(name))
    return frozenset(seen)


def _measures(module: str) -> bool:
    return module.startswith("dure.bench") or module == "dure.cli.bench"


def _imported(module: str) -> list[str]:
    found: set[str] = set()
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
        elif isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
    return sorted(found & _modules().keys())
