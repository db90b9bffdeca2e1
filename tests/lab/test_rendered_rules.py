"""Rendered alerts are what Prometheus itself can read."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from dure.files.builtin import demo_fleet
from lab.prometheus import promtool
from tests.unit.manifest.test_render import objects, of, setting

pytestmark = pytest.mark.lab


def test_promtool_reads_every_rendered_rule(tmp_path: Path) -> None:
    for spec in demo_fleet().clusters:
        [rules] = of("PrometheusRule", objects(setting(spec)))
        file = tmp_path / f"{spec.info.name}.yaml"
        file.write_text(yaml.safe_dump(rules["spec"]))
        count = sum(len(group["rules"]) for group in rules["spec"]["groups"])
        assert f"{count} rules found" in promtool("check", "rules", str(file))
