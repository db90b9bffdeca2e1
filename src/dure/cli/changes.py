"""How `apply` and `diff` tell what changes, document by document."""

from __future__ import annotations

from typing import Any

import click

from dure.cli.output import print_data

_SIGNS = {"create": "+", "change": "~", "keep": "=", "refuse": "!"}


def show_changes(answers: list[dict[str, Any]], output: str) -> None:
    if output in ("json", "yaml"):
        print_data(answers, output)
        return
    for step in (step for answer in answers for step in answer["steps"]):
        click.echo(f"{_SIGNS[step['action']]} {step['kind']} {step['name']}  {step.get('message', '')}".rstrip())
        for field in step.get("fields", []):
            click.echo(f"    {field['path']}: {field['before'] or '(none)'} -> {field['after'] or '(none)'}")
        if step.get("remedy"):
            click.echo(f"    {step['remedy']}")
