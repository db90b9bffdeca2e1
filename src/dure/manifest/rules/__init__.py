"""Every rule, by code. A new trap is a new rule in the file of its topic, with a good and a bad scenario."""

from __future__ import annotations

from dure.manifest.rule import Rule
from dure.manifest.rules import alerts, disruption, hpa, monitoring, nodeclass, nodepool, scaledobject, workload

_TOPICS = (alerts, disruption, hpa, monitoring, nodeclass, nodepool, scaledobject, workload)
RULES: tuple[Rule, ...] = tuple(
    sorted((rule for topic in _TOPICS for rule in topic.RULES), key=lambda rule: rule.code)
)
