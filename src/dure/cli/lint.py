"""`dure lint`: known traps in manifests of Karpenter, KEDA, HPA, DCGM and Prometheus, with reason and remedy."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from dure.files.builtin import instances
from dure.files.dump import dump_yaml
from dure.files.manifests import Source, read_source, read_sources
from dure.files.problem import InvalidFile, Problem
from dure.files.yaml import MAX_BYTES
from dure.manifest.edit import edited
from dure.manifest.formats import as_github, as_sarif
from dure.manifest.lint import Finding, lint
from dure.manifest.rule import Rule, Severity
from dure.manifest.rules import RULES
from dure.model.errors import InvalidInput, NotAllowed

STDIN = "standard input"


@click.command()
@click.argument("paths", nargs=-1, metavar="FILE|DIR|-")
@click.option("--cluster", is_flag=True, help="Look at what is in a live cluster as well.")
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="For --cluster; else what kubectl would take.")
@click.option("--context", default="", help="Context of the kubeconfig.")
@click.option("--fix", is_flag=True, help="Mend what is safe to mend, in the files.")
@click.option("--json", "as_json", is_flag=True, help="Same as --format json.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "sarif", "github"]), default="text", show_default=True
)
@click.option("--select", "selected", multiple=True, metavar="CODE", help="Only these rules (repeat, or comma).")
@click.option("--ignore", "ignored", multiple=True, metavar="CODE", help="Not these rules (repeat, or comma).")
@click.option("--explain", metavar="CODE", help="Tell about one rule, with an example.")
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[str, ...],
    cluster: bool,
    kubeconfig: Path | None,
    context: str,
    fix: bool,
    as_json: bool,
    form: str,
    selected: tuple[str, ...],
    ignored: tuple[str, ...],
    explain: str | None,
) -> None:
    """Find traps in Kubernetes manifests: what does not work, does harm, or works otherwise than meant.

    All files are judged together, so that a ScaledObject is compared with the Deployment it scales and the
    monitors that feed it. Exit code 0: nothing found, 1: findings, 2: wrong input (what can be read is judged).

    \b
    Example:
      dure lint manifests/
      kubectl get nodepools -o yaml | dure lint -
      dure lint --cluster --context prod
      dure lint --fix scaledobject.yaml
      dure lint --explain DURE001
    """
    if explain:
        _explain(_rules((explain,), ())[0])
        return
    if not paths and not cluster:
        raise click.UsageError("Name files or folders to look at (- is standard input), or --cluster.")
    if (kubeconfig or context) and not cluster:
        raise click.UsageError("--kubeconfig and --context go with --cluster.")
    if fix and cluster:
        raise click.UsageError("--fix changes files; a live cluster is yours to change.")
    rules = _rules(selected, ignored)
    if fix and "-" in paths:
        raise click.UsageError("--fix changes files; standard input has none.")
    sources, problems = _read(paths)
    if problems and not sources:
        raise InvalidFile(problems)
    sources += _live(kubeconfig, context) if cluster else []
    if not sources and not cluster:
        click.echo(f"no YAML or JSON file in {', '.join(paths)}", err=True)
    findings = _lint(sources, rules)
    if fix:
        findings = _fix(sources, findings, rules, paths)
    _print(findings, "json" if as_json else form, sources)
    if problems:
        raise InvalidFile(problems)
    if findings:
        ctx.exit(1)


def _rules(selected: Sequence[str], ignored: Sequence[str]) -> list[Rule]:
    known = {rule.code: rule for rule in RULES}
    only, never = _codes(selected), _codes(ignored)
    if unknown := sorted((only | never) - known.keys()):
        raise InvalidInput(f"there is no rule {unknown[0]}", remedy=f"Rules: {RULES[0].code} to {RULES[-1].code}.")
    return [rule for rule in RULES if (not only or rule.code in only) and rule.code not in never]


def _codes(given: Sequence[str]) -> set[str]:
    return {code.strip().upper() for each in given for code in each.split(",") if code.strip()}


def _read(paths: tuple[str, ...]) -> tuple[list[Source], list[Problem]]:
    """What can be judged, and what is wrong with the rest."""
    given = [read_source(sys.stdin.buffer.read(MAX_BYTES + 1), STDIN)] if "-" in paths else []
    found, refused = read_sources(Path(path) for path in paths if path != "-")
    return [*given, *found], [problem for each in refused for problem in each.problems]


def _live(kubeconfig: Path | None, context: str) -> list[Source]:
    """Each object as a source of its own; lines are those of its YAML."""
    from dure.adapters.kube.collect import collect
    from dure.adapters.kube.rest import Api, default_kubeconfig

    with Api.from_kubeconfig(kubeconfig or default_kubeconfig(), context) as api:
        found = collect(api)
    if found.unseen and not found.objects:
        raise NotAllowed(
            f"nothing in the cluster may be listed: {', '.join(found.unseen)}",
            remedy="Take an account that may read it, for example one bound to the cluster role view.",
        )
    if found.unseen:
        click.echo(f"not looked at, because it may not be listed: {', '.join(found.unseen)}", err=True)
    return [read_source(dump_yaml([each]), name) for name, each in found.objects.items()]


def _lint(sources: Iterable[Source], rules: Sequence[Rule]) -> list[Finding]:
    return lint([document for source in sources for document in source.documents], instances(), rules)


def _fix(sources: list[Source], findings: list[Finding], rules: list[Rule], paths: tuple[str, ...]) -> list[Finding]:
    """Write what can be mended; what is left is found anew, so that the answer is about the files as they are."""
    edits = [edit for finding in findings for edit in finding.edits]
    total = 0
    for source in sources:
        text, made = edited(source.text, [edit for edit in edits if edit.document.file == source.name])
        if made:
            read_source(text, source.name)
            Path(source.name).write_text(f"{source.mark}{text}", encoding="utf-8")
            total += made
    click.echo(f"{_counted(total, 'change')} made", err=True)
    return _lint(_read(paths)[0], rules) if total else findings


def _print(findings: list[Finding], form: str, sources: list[Source]) -> None:
    if form == "json":
        click.echo(json.dumps([finding.row() for finding in findings], ensure_ascii=False))
    elif form == "sarif":
        click.echo(json.dumps(as_sarif(findings, RULES), ensure_ascii=False))
    elif form == "github":
        for line in as_github(findings):
            click.echo(line)
    else:
        _print_text(findings, sources)


def _print_text(findings: list[Finding], sources: list[Source]) -> None:
    for finding in findings:
        place = f"{finding.file}:{finding.line}"
        click.echo(f"{place}: {finding.code} {finding.severity}: {finding.message}")
        if finding.path:
            click.echo(f"  at   {finding.path}")
        click.echo(f"  why  {finding.why}")
        click.echo(f"  fix  {finding.fix}{' (dure lint --fix does it)' if finding.edits else ''}")
    objects = sum(len(source.documents) for source in sources)
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    said = f"{_counted(len(findings), 'finding')} ({_counted(errors, 'error')})"
    click.echo(f"{said} in {_counted(objects, 'object')} of {_counted(len(sources), 'source')}", err=True)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _explain(rule: Rule) -> None:
    click.echo(f"{rule.code} ({rule.severity}): {rule.title}\n\nWhy: {rule.why}\n\nFix: {rule.fix}")
    for title, example in (("Before", rule.before), ("After", rule.after)):
        click.echo(f"\n{title}:")
        for line in example.split("\n"):
            click.echo(f"  {line}")
