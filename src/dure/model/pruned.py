"""What a cut of the past took away, and from where on it can still be told."""

from __future__ import annotations

import msgspec

from dure.model.units import Instant

# When the journal begins: everything of workloads that had ended before was cut off.
PRUNED_SETTING = "pruned-until"


class Pruned(msgspec.Struct, frozen=True):
    """`lines` of the audit log, `decisions` of the journal and `postings` of the ledger are gone.

    `months` were closed: each keeps one posting for each pool, account, tenant and model. `first_line` is the first
    line of the audit log that is left. All are zero where there was nothing to cut.
    """

    cut_s: Instant
    lines: int = 0
    decisions: int = 0
    postings: int = 0
    months: int = 0
    first_line: int = 1

    def __bool__(self) -> bool:
        return any((self.lines, self.decisions, self.postings))
