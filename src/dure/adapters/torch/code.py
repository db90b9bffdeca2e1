"""A tenant's model as code: which function makes it, and what that function answers.

`FILE.py:FUNCTION` or `PACKAGE.MODULE:FUNCTION`, called once in the tenant's own process. It answers the module and an
example of its inputs by name; names, types and sizes of requests are those of the example, except for sizes that are
named as free. Read by the device file's checks and by the worker; needs no PyTorch before `made`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple

from dure.model.errors import InvalidInput

_FILE = re.compile(r"(?P<where>.+\.py):(?P<function>[A-Za-z_]\w*)")
_IMPORT = re.compile(r"(?P<where>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?P<function>[A-Za-z_]\w*)")
ANSWERS = "It answers (module, {name: example tensor}), and maybe ({name: dimensions that may be of any size})."


class Code(NamedTuple):
    """`where` is a file or a module's name."""

    where: str
    function: str

    @property
    def file(self) -> Path | None:
        return Path(self.where) if self.where.endswith(".py") else None


class Made(NamedTuple):
    """`free` has for some inputs the dimensions that may be of any size."""

    module: Any
    example: Mapping[str, Any]
    free: Mapping[str, tuple[int, ...]] = {}


def code_of(model: str) -> Code | None:
    """What the model's text names, if it is code."""
    found = _FILE.fullmatch(model) or _IMPORT.fullmatch(model)
    return Code(found["where"], found["function"]) if found else None


def by_torch(model: str) -> bool:
    return model.endswith(".pt2") or code_of(model) is not None


def made(code: Code) -> Made:
    """Runs the tenant's code; `InvalidInput` where it makes no model."""
    function = getattr(_loaded(code), code.function, None)
    if not callable(function):
        raise InvalidInput(f"{code.where} has no function '{code.function}'", remedy=ANSWERS)
    answer = function()
    if not isinstance(answer, tuple) or len(answer) not in (2, 3) or not callable(answer[0]):
        raise InvalidInput(f"{code.where}:{code.function} makes no model", remedy=ANSWERS)
    if not isinstance(answer[1], Mapping) or not answer[1]:
        raise InvalidInput(f"{code.where}:{code.function} gives no example of its inputs", remedy=ANSWERS)
    return Made(*answer)


def _loaded(code: Code) -> Any:
    if code.file is None:
        return import_module(code.where)
    spec = spec_from_file_location("dure_tenant_model", code.file)
    if spec is None or spec.loader is None:
        raise InvalidInput(f"{code.where} is not a file of Python")
    module = module_from_spec(spec)
    # Classes are looked up by their module's name, as dataclasses and pickles do.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
