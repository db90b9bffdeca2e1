"""The PrometheusRule of a cluster: those alerts whose figures it has, each with its runbook as text and as a link."""

from __future__ import annotations

from dure.manifest.document import Json
from dure.manifest.render.alerts import DEVICES, DURE, NODES, PROMISES, SERVING, Alert, runbook
from dure.manifest.render.setting import MONITORING, Setting, made

RUNBOOKS = "https://dure.dev/docs/runbook"


def alert_objects(setting: Setting) -> list[Json]:
    groups = [("dure-promises", PROMISES), ("dure-serving", SERVING), ("dure", DURE)]
    if setting.has_nvidia:
        groups.append(("dure-devices", DEVICES))
    if setting.rented:
        groups.append(("dure-nodes", NODES))
    spec = {"groups": [{"name": name, "rules": [rule(alert) for alert in alerts]} for name, alerts in groups]}
    labels = {"release": setting.release}
    return [made("monitoring.coreos.com/v1", "PrometheusRule", "dure", MONITORING, labels, spec=spec)]


def rule(alert: Alert) -> Json:
    return {
        "alert": alert.name,
        "expr": alert.expr,
        "for": alert.hold,
        "labels": {"severity": alert.severity},
        "annotations": {
            "summary": alert.summary,
            "description": runbook(alert),
            "runbook_url": f"{RUNBOOKS}#{alert.name.lower()}",
        },
    }
