"""All rules over all manifests: findings in the order of files and lines. Called by `dure lint` and by tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from dure.manifest.document import Document, shown
from dure.manifest.manifests import Manifests
from dure.manifest.rule import IGNORE, Edit, Rule, Severity
from dure.manifest.rules import RULES
from dure.manifest.worlds import worlds
from dure.model.offer import InstanceOffer


class Finding(msgspec.Struct, frozen=True):
    """What `--json` prints, plus the edits that would mend it."""

    code: str
    severity: Severity
    file: str
    line: int
    path: str
    message: str
    why: str
    fix: str
    edits: tuple[Edit, ...] = ()

    def row(self) -> dict[str, str | int]:
        return {
            "code": self.code, "severity": str(self.severity), "file": self.file, "line": self.line,
            "path": self.path, "message": self.message, "why": self.why, "fix": self.fix,
        }  # fmt: skip


def lint(
    documents: Sequence[Document], offers: Sequence[InstanceOffer] = (), rules: Iterable[Rule] = RULES
) -> list[Finding]:
    """`offers` are the instance types that node pools may name; rules about unknown types stay silent."""
    judged = [Manifests(world, tuple(offers)) for world in worlds(documents)]
    found = [finding for rule in rules for finding in _findings(rule, judged)]
    return sorted(found, key=lambda each: (each.file, each.line, each.code, each.path, each.message))


def _findings(rule: Rule, judged: Iterable[Manifests]) -> Iterable[Finding]:
    seen = set()
    for hit in (hit for manifests in judged for hit in rule.check(manifests)):
        key = (id(hit.document), hit.path, hit.line, hit.message)
        if key in seen or _ignored(rule, hit.document):
            continue
        seen.add(key)
        yield Finding(
            rule.code,
            hit.severity or rule.severity,
            hit.document.file,
            hit.line or hit.document.line_of(hit.path),
            shown(hit.path),
            hit.message,
            rule.why,
            rule.fix,
            hit.edits,
        )


def _ignored(rule: Rule, document: Document) -> bool:
    """An author who knows better says so on the object: dure.dev/lint-ignore: DURE009, DURE018."""
    named = str(document.annotations.get(IGNORE, ""))
    return rule.code in named.replace(",", " ").split()
