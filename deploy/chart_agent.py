"""The chart's agent is what `dure render agent` prints: this writes it with values in the place of arguments.

`make chart` (`python -m deploy.chart_agent`) writes the template anew; a test compares. So rights, image, arguments
and fences of an agent stand in one place, `dure.adapters.kube.rbac`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from dure.adapters.kube.rbac import manifests
from dure.files.dump import dump_yaml

TEMPLATE = Path(__file__).parent / "chart/dure/templates/agent.yaml"
Json = dict[str, Any]

HEAD = "{{- /* Written by python -m deploy.chart_agent from what `dure render agent` prints. */ -}}\n"
# Words that stand for values until braces of the objects themselves are escaped.
VALUES = {
    "@cluster@": "{{ .Values.agent.cluster }}",
    "@plane@": "{{ .Values.agent.plane }}",
    "@image@": '{{ include "dure.image" . }}',
    "@authority@": "{{ .Values.agent.caSecret }}",
}


def template() -> str:
    plain = _objects("")
    trusting = _objects("@authority@")
    assert plain[:-1] == trusting[:-1], "only the Deployment knows of an authority"
    shared, agent, believing = (_text(objects) for objects in (plain[:-1], plain[-1:], trusting[-1:]))
    return (
        f"{HEAD}{{{{- if .Values.agent.enabled }}}}\n{shared}---\n"
        f"{{{{- if .Values.agent.caSecret }}}}\n{believing}{{{{- else }}}}\n{agent}{{{{- end }}}}\n{{{{- end }}}}\n"
    )


def _objects(authority: str) -> list[Json]:
    """The namespace is the release's own; definitions outlive a release, since workloads are kept in them."""
    made = [each for each in manifests("@cluster@", "@plane@", "@image@", authority) if each["kind"] != "Namespace"]
    return [_kept(each) if each["kind"] == "CustomResourceDefinition" else each for each in made]


def _kept(definition: Json) -> Json:
    metadata = definition["metadata"]
    noted = {**metadata.get("annotations", {}), "helm.sh/resource-policy": "keep"}
    return {**definition, "metadata": {**metadata, "annotations": noted}}


def _text(objects: list[Json]) -> str:
    escaped = re.sub(r"\{\{|\}\}", lambda found: f'{{{{ "{found[0]}" }}}}', dump_yaml(objects))
    for word, value in VALUES.items():
        escaped = escaped.replace(word, value)
    return escaped


def main() -> int:
    TEMPLATE.write_text(template(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
