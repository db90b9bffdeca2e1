"""Structs are learned in one thread before others read them: what is met half learned ends the process."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Forty structs, each with four parts of the kind before it, met for the first time by eight threads at once.
PROGRAM = """
import sys, threading, types
import msgspec
from dure.adapters.shapes import settle

sys.setswitchinterval(1e-6)
module = types.ModuleType("dure.many")
sys.modules["dure.many"] = module
text = "import msgspec\\nfrom typing import Optional\\n"
for number in range(40):
    text += f"class S{number}(msgspec.Struct):\\n"
    for field in range(8):
        nested = f"'Optional[S{number - 1}]' = None" if number and field % 2 else "int = 0"
        text += f"    f{field}: {nested}\\n"
exec(text, module.__dict__)
kinds = [getattr(module, f"S{number}") for number in range(40)]
settle()
together = threading.Barrier(8)


def read(first):
    together.wait()
    for kind in kinds[first::3] + kinds:
        try:
            msgspec.json.decode(b'{"f1": {"f1": {"f0": 1}}, "f0": 3}', type=kind)
        except msgspec.ValidationError:
            pass


threads = [threading.Thread(target=read, args=(number % 5,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.parametrize("attempt", range(5))
def test_threads_that_meet_structs_at_once_find_them_learned(attempt: int) -> None:
    """Without it, most such processes end by a signal."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
