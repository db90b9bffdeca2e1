"""Files at the edge: YAML and JSON of the kinds Fleet, Workload, Tenant and Policy become model structs here.

`yaml` reads hostile text into values that know their line; `shapes` says what a key may hold and from that one
description come the reader, the JSON Schema (`schema`), the writer (`dump`) and the reference page. `builtin` is
what ships with Dure. Callers use `read_files`, `read_text` and `parse_workload_json`.
"""

from __future__ import annotations

from dure.files.documents import Documents, parse_workload_json, read_files, read_json, read_text
from dure.files.problem import InvalidFile, Problem

__all__ = ["Documents", "InvalidFile", "Problem", "parse_workload_json", "read_files", "read_json", "read_text"]
