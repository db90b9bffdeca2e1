"""Traps in when Karpenter may take nodes away: budgets, consolidation, expiry."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dure.manifest.document import Path, mapping, sequence, strings, text
from dure.manifest.manifests import Manifests
from dure.manifest.pool import Pool
from dure.manifest.quantity import quantity, seconds
from dure.manifest.rule import Hit, Rule, Severity

_PATIENT_S = 300.0
# Who has written down the time zone has thought about it.
TIME_ZONE = "dure.dev/timezone"
_KEEP = "karpenter.sh/do-not-disrupt"
# Hours from UTC in winter of the regions that cloud zones are named after.
_OFFSETS = {
    "us-east": -5.0, "us-west": -8.0, "ca-central": -5.0, "ca-west": -7.0, "sa-east": -3.0, "mx-central": -6.0,
    "eu-west": 0.0, "eu-central": 1.0, "eu-north": 1.0, "eu-south": 1.0, "af-south": 2.0, "il-central": 2.0,
    "me-south": 3.0, "me-central": 4.0, "ap-south": 5.5, "ap-southeast-1": 8.0, "ap-southeast-2": 10.0,
    "ap-southeast": 7.0, "ap-east": 8.0, "ap-northeast": 9.0, "kr-": 9.0,
}  # fmt: skip
_REGION = re.compile(r"\b(?:(?:us|eu|ap|ca|sa|me|af|il|mx)-(?:[a-z]+)-[0-9]|kr-[a-z]+)")
_OFFICE_STARTS = range(7, 11)
_OFFICE_HOURS = (6.0, 13.0)
_NEAR_H = 2.0


def _budgets(pool: Pool) -> Iterator[tuple[Path, dict[str, object]]]:
    for index, budget in enumerate(sequence(pool.disruption.get("budgets"))):
        yield ("spec", "disruption", "budgets", index), mapping(budget)


def _utc_office_hours(manifests: Manifests) -> Iterator[Hit]:
    offset = _offset(manifests)
    for pool in manifests.pools:
        if pool.document.annotations.get(TIME_ZONE):
            continue
        for path, budget in _budgets(pool):
            schedule = text(budget.get("schedule"))
            if re.match(r"(CRON_)?TZ=", schedule):
                yield Hit(
                    pool.document,
                    (*path, "schedule"),
                    "Karpenter reads schedules in UTC only; a time zone is invalid",
                )
                continue
            start = _office_start(schedule, seconds(budget.get("duration")))
            if start is None or (offset is not None and abs(offset) <= _NEAR_H):
                continue
            shift = 9.0 if offset is None else offset
            where = "in Seoul, for example" if offset is None else "where these nodes are"
            local, until = (start + shift) % 24, (start + shift + (seconds(budget.get("duration")) or 0) / 3600) % 24
            message = f"'{schedule}' is UTC: {local:02.0f}:00-{until:02.0f}:00 {where}, not office hours"
            yield Hit(pool.document, (*path, "schedule"), message)


def _office_start(schedule: str, duration_s: float | None) -> int | None:
    """The hour at which a window begins that someone meant as office hours."""
    fields = schedule.split()
    if len(fields) != 5 or duration_s is None or not _OFFICE_HOURS[0] <= duration_s / 3600 <= _OFFICE_HOURS[1]:
        return None
    weekdays = fields[4].lower() in ("1-5", "mon-fri", "1,2,3,4,5", "mon,tue,wed,thu,fri")
    if not weekdays or not fields[1].isdigit() or int(fields[1]) not in _OFFICE_STARTS:
        return None
    return int(fields[1])


def _offset(manifests: Manifests) -> float | None:
    """Hours from UTC of the region that the manifests name; None when they name none."""
    for document in manifests.documents:
        for _, found in strings(document.data):
            for region in _REGION.findall(found):
                for prefix, offset in sorted(_OFFSETS.items(), key=lambda each: -len(each[0])):
                    if region.startswith(prefix):
                        return offset
    return None


def _hasty(manifests: Manifests) -> Iterator[Hit]:
    for pool in manifests.gpu_pools:
        if not mapping(pool.document.spec.get("template")) or pool.document.spec.get("replicas") is not None:
            continue
        policy = text(pool.disruption.get("consolidationPolicy")) or "WhenEmptyOrUnderutilized"
        wait_s = seconds(pool.disruption.get("consolidateAfter", 0))
        if policy not in ("WhenEmptyOrUnderutilized", "WhenUnderutilized") or wait_s is None or wait_s >= _PATIENT_S:
            continue
        landing = [site for site in manifests.pods if site.devices and pool.takes(site) and not pool.missing(site)]
        if landing and all(text(site.annotations.get(_KEEP)) not in ("", "false") for site in landing):
            continue
        path: Path = ("spec", "disruption", "consolidateAfter")
        message = f"A node is taken away {wait_s:g} s after a pod left it; loading a model takes minutes"
        yield Hit(pool.document, path, message)


def _silent_expiry(manifests: Manifests) -> Iterator[Hit]:
    for pool in manifests.pools:
        if not pool.template or "expireAfter" in pool.template or "expireAfter" in pool.disruption:
            continue
        message = (
            "expireAfter is not set: every node is drained by force after 720h, and budgets do not hold that back"
        )
        yield Hit(pool.document, ("spec", "template", "spec"), message)


def _rounded_up(manifests: Manifests) -> Iterator[Hit]:
    for pool in manifests.gpu_pools:
        absolute = [budget for _, budget in _budgets(pool) if _plain(budget) is not None and "schedule" not in budget]
        for path, budget in _budgets(pool):
            share = text(budget.get("nodes"))
            percent = float(share[:-1]) if share.endswith("%") and share[:-1].isdigit() else 0.0
            if not 0 < percent < 100 or absolute or (_largest(pool) or 0) * percent / 100 >= 4:
                continue
            count = int(100 // percent)
            message = f"{share} is rounded up: 1 node of 1..{count}, all of a pool with one node"
            yield Hit(pool.document, (*path, "nodes"), message)


def _plain(budget: dict[str, object]) -> float | None:
    found = text(budget.get("nodes"))
    return float(found) if found.isdigit() else None


def _largest(pool: Pool) -> float | None:
    """How many full nodes the pool's limit of devices is."""
    wanted = [quantity(amount) for name, amount in pool.limits.items() if "/" in name]
    if "nodes" in pool.limits:
        return quantity(pool.limits["nodes"])
    densest = max((offer.devices for offer in pool.offers), default=8)
    return wanted[0] / densest if wanted and wanted[0] else None


RULES = (
    Rule(
        "DURE009",
        Severity.ERROR,
        "A budget that should protect office hours is written in local time, but schedules are UTC.",
        "Karpenter knows no time zones. '0 9 * * 1-5' for 8h protects 18:00-02:00 in Korea: the evening is safe "
        "and the "
        "working day is not.",
        "Write the window in UTC (09:00 in Seoul is '0 0 * * 1-5'). Whoever has done so notes it with the annotation "
        "dure.dev/timezone.",
        "- {nodes: '0', schedule: '0 9 * * 1-5', duration: 8h}",
        "- {nodes: '0', schedule: '0 0 * * 1-5', duration: 9h}  # 09:00-18:00 in Seoul",
        _utc_office_hours,
    ),
    Rule(
        "DURE018",
        Severity.WARNING,
        "Consolidation of GPU nodes is faster than the start of what runs on them.",
        "With WhenEmptyOrUnderutilized a node may go seconds after a pod left it, and its other pods start anew "
        "elsewhere: "
        "minutes of image pull and model load, again and again.",
        "Wait at least five minutes, use WhenEmpty or Balanced, or protect pods with karpenter.sh/do-not-disrupt.",
        "consolidationPolicy: WhenEmptyOrUnderutilized\nconsolidateAfter: 30s",
        "consolidationPolicy: WhenEmptyOrUnderutilized\nconsolidateAfter: 10m",
        _hasty,
    ),
    Rule(
        "DURE031",
        Severity.WARNING,
        "A NodePool leaves the expiry of its nodes to the default.",
        "The default is 720h and forceful: budgets do not hold expiry back, so a long training is cut after 30 days.",
        "Set expireAfter on purpose: Never, or a time together with terminationGracePeriod.",
        "template:\n  spec:\n    nodeClassRef: ...",
        "template:\n  spec:\n    expireAfter: Never\n    nodeClassRef: ...",
        _silent_expiry,
    ),
    Rule(
        "DURE035",
        Severity.WARNING,
        "A disruption budget in percent is rounded up, which is everything in a small pool.",
        "20 % of one node is one node. GPU pools are small, so the budget that looks careful allows all of it to go.",
        "Use a number (nodes: '1'), and zero in the hours that matter.",
        "budgets: [{nodes: 20%}]",
        "budgets: [{nodes: '1'}]",
        _rounded_up,
    ),
)
