"""A cluster of the fleet as manifests that have none of the traps `lint` knows. Stable: same fleet, same bytes."""

from __future__ import annotations

from dure.manifest.document import Json
from dure.manifest.render.dashboards import dashboard_objects
from dure.manifest.render.dcgm import exporter_objects
from dure.manifest.render.karpenter import node_objects
from dure.manifest.render.rules import alert_objects
from dure.manifest.render.serving import serving_objects
from dure.manifest.render.setting import MONITORING, Setting, made
from dure.manifest.render.tenants import tenant_objects

__all__ = ["PARTS", "Setting", "render"]

PARTS = ("nodes", "monitoring", "tenant", "serving")


def render(setting: Setting, parts: tuple[str, ...] = PARTS) -> dict[str, list[Json]]:
    """The objects by part; the key is the name of the file they belong into."""
    makers = {"nodes": node_objects, "monitoring": _monitoring, "tenant": tenant_objects, "serving": serving_objects}
    found = {part: makers[part](setting) for part in PARTS if part in parts}
    return {part: objects for part, objects in found.items() if objects}


def _monitoring(setting: Setting) -> list[Json]:
    exporter = exporter_objects(setting) or [made("v1", "Namespace", MONITORING)]
    return [*exporter, *alert_objects(setting), *dashboard_objects(setting)]
