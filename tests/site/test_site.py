"""The site builds without a warning, misses nothing that the code has, and fetches nothing from anywhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dure.api.rules import RULES
from dure.files.kind import KINDS
from dure.files.schema import schema
from dure.manifest.render import alerts
from dure.manifest.rules import RULES as LINT_RULES
from dure.model.reason import REMEDIES, Reason
from handbook import commands, configuration, endpoints, figures, hook
from tests.site.conftest import ROOT, Site

# One build serves them all.
pytestmark = pytest.mark.xdist_group("site")


def test_the_strict_build_goes_through(site: Site) -> None:
    assert (site.folder / "search/search_index.json").exists()


def test_every_command_is_on_the_site_with_each_of_its_options(site: Site) -> None:
    text = site.text("reference/commands")
    for path, command in commands.walk():
        assert re.search(rf"^{re.escape(path)}¶$", text, re.MULTILINE), path
        for parameter in command.params:
            assert parameter.param_type_name == "argument" or parameter.opts[-1] in text, (path, parameter.name)


def test_every_reason_and_its_remedy_are_on_the_site(site: Site) -> None:
    text = site.text("reference/reasons")
    assert [reason for reason in Reason if reason.value not in text or REMEDIES[reason] not in text] == []


def test_every_lint_rule_and_every_alert_are_on_the_site(site: Site) -> None:
    rules, runbook = site.text("lint"), site.text("runbook")
    assert [rule.code for rule in LINT_RULES if f"{rule.code}¶" not in rules or rule.title not in rules] == []
    known = [*alerts.PROMISES, *alerts.SERVING, *alerts.DURE, *alerts.DEVICES, *alerts.NODES]
    assert [alert.name for alert in known if f"{alert.name}¶" not in runbook] == []
    anchors = site.html("runbook")
    assert [alert.name for alert in known if f'id="{alert.name.lower()}"' not in anchors] == [], "alerts link there"


def test_every_metric_that_the_sources_name_is_on_the_site(site: Site) -> None:
    text = site.text("reference/figures")
    sources = ("api/metrics.py", "api/figures.py", "gateway/metrics.py", "watch/history.py", "watch/foreign.py")
    named = {
        re.sub(r"\{[^}]*\}", "krw", name)
        for source in sources
        for name in re.findall(r'"(dure_[a-z_{}.()]+)"', (ROOT / "src/dure" / source).read_text("utf-8"))
    }
    assert len(named) > 60
    assert [name for name in sorted(named) if name not in text] == []
    assert [family.name for family in (*figures.plane(), *figures.gateway()) if family.name not in text] == []


def test_every_endpoint_and_its_role_are_on_the_site(site: Site) -> None:
    text = site.text("reference/endpoints")
    described = {each.name for each in (*endpoints.plane(), *endpoints.gateway())}
    assert "POST /v1/workloads" in described
    assert [name for name in sorted(described | set(RULES)) if name not in text] == []


def test_every_key_of_every_file_and_every_variable_are_on_the_site(site: Site) -> None:
    text = site.text("reference/configuration")
    for kind in KINDS:
        for name in schema(kind)["properties"]["spec"]["properties"]:
            assert f"spec.{name}" in text, (kind, name)
    assert [name for name in configuration.variables() if name not in text] == []
    read = {
        name
        for path in (ROOT / "src/dure").rglob("*.py")
        for name in re.findall(r'(?:environ(?:\.get\(|\[)|envvar=)"(DURE_[A-Z_]+)"', path.read_text("utf-8"))
    }
    assert [name for name in sorted(read) if name not in text] == []


def test_every_value_of_the_chart_is_on_the_site(site: Site) -> None:
    text = site.text("reference/configuration")
    values = json.loads((ROOT / "deploy/chart/dure/values.schema.json").read_text("utf-8"))
    assert [name for name in values["properties"] if name not in text] == []


def test_no_page_fetches_anything_from_elsewhere(site: Site) -> None:
    wanted = re.compile(
        r'<(?:script|img|iframe|link rel="(?:stylesheet|preconnect|preload)")[^>]*?(?:src|href)="([^"]+)"'
    )
    for page in site.folder.rglob("*.html"):
        foreign = [url for url in wanted.findall(page.read_text("utf-8")) if re.match(r"(https?:)?//", url)]
        assert foreign == [], page
    for sheet in site.folder.rglob("*.css"):
        assert not re.search(r"url\([\"']?(https?:)?//", sheet.read_text("utf-8")), sheet


def test_design_pages_and_examples_are_carried_along(site: Site) -> None:
    for path in (ROOT / "designs").glob("*.md"):
        assert (site.folder / "designs" / path.stem / "index.html").exists(), path.name
    assert (site.folder / "examples/batch.yaml").read_bytes() == (ROOT / "examples/batch.yaml").read_bytes()
    assert hook.carried()["ARCHITECTURE.md"] == "architecture.md"


def test_a_link_into_the_sources_becomes_the_name_of_the_file(site: Site) -> None:
    walk = site.html("architecture")
    assert "<code>src/dure/plane/loop.py</code>" in walk
    assert Path(ROOT / "src/dure/plane/loop.py").exists()
