"""Grafana dashboards as ConfigMaps that Grafana's sidecar picks up by label; what they show is in `panels`."""

from __future__ import annotations

import json
from collections.abc import Sequence

from dure.manifest.document import Json
from dure.manifest.render.panels import BOARDS, Board, Panel
from dure.manifest.render.setting import MONITORING, Setting, made


def dashboard_objects(setting: Setting) -> list[Json]:
    """Boards of which the cluster has at least one panel; panels whose figures it has not are left out."""
    here = {"dure", "vllm", *(("dcgm",) if setting.has_nvidia else ())}
    found = []
    for board in BOARDS:
        panels = [panel for panel in board.panels if panel.needs in here]
        if panels:
            data = {f"{board.name}.json": json.dumps(board_json(board, panels), indent=1)}
            found.append(made("v1", "ConfigMap", board.name, MONITORING, {"grafana_dashboard": "1"}, data=data))
    return found


def board_json(board: Board, panels: Sequence[Panel]) -> Json:
    source = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}
    narrowed = {
        "name": board.variable, "type": "query", "label": board.variable.capitalize(), "multi": True,
        "includeAll": True, "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": f"label_values({board.metric}, {board.variable})", "refresh": 2,
    }  # fmt: skip
    return {
        "uid": board.name,
        "title": board.title,
        "schemaVersion": 39,
        "editable": False,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [source, narrowed]},
        "panels": [_panel(index, panel) for index, panel in enumerate(panels)],
    }


def _panel(index: int, panel: Panel) -> Json:
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "id": index + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": source,
        "gridPos": {"x": index % 2 * 12, "y": index // 2 * 8, "w": 12, "h": 8},
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": [{"refId": "A", "datasource": source, "expr": panel.expr, "legendFormat": panel.legend}],
    }
