"""`dure token`: who else may use this Dure, with which role, for which tenant, for how long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dure.cli.client import Client
from dure.cli.output import moment, output_options, print_data, print_table
from dure.cli.state import state_option
from dure.files.params import NOT_NEGATIVE, POSITIVE
from dure.model.tenant import Role


@click.group()
def command() -> None:
    """API tokens: a role for one tenant, or for the whole fleet, until a day.

    \b
    viewer     reads                      operator  also steers shared devices, moves, shadow policies
    submitter  also submits and cancels   admin     also tokens, policies, tenants, the audit log

    \b
    Example:
      dure token create ci-vision --role submitter --tenant vision --days 30
      dure token rotate ci-vision --grace 3600
      DURE_URL=http://127.0.0.1:7420 DURE_TOKEN=dure_... dure get workloads
    """


@command.command()
@click.argument("name")
@click.option("--role", type=click.Choice([role.value for role in Role]), default="viewer", show_default=True)
@click.option("--tenant", default="*", show_default=True, help="One tenant, or * for the whole fleet.")
@click.option("--days", type=POSITIVE, default=90.0, show_default=True, help="Until it expires.")
@output_options
@state_option
def create(name: str, role: str, tenant: str, days: float, output: str, state: Path) -> None:
    """Make a token and print it; it cannot be shown again."""
    wish = {"name": name, "role": role, "tenant": tenant, "days": days}
    _print_secret(Client(state).call("POST", "/v1/tokens", wish), output)


@command.command("list")
@click.option("--all", "everything", is_flag=True, help="Also those that were revoked.")
@output_options
@state_option
def list_(everything: bool, output: str, state: Path) -> None:
    """Tokens of the tenants that you administer."""
    found = [one for one in Client(state).items("/v1/tokens") if everything or "revoked_s" not in one]
    if output in ("json", "yaml"):
        print_data(found, output)
        return
    rows = [
        [one["id"], one["name"], one["role"], one["tenant"], moment(one.get("expires_s")), one["created_by"],
         "revoked" if "revoked_s" in one else ""]
        for one in found
    ]  # fmt: skip
    print_table(["ID", "NAME", "ROLE", "TENANT", "EXPIRES", "MADE BY", ""], rows)


@command.command()
@click.argument("name")
@click.option("--grace", "grace_s", type=NOT_NEGATIVE, default=0.0, help="Seconds that the old one works on.")
@output_options
@state_option
def rotate(name: str, grace_s: float, output: str, state: Path) -> None:
    """A new secret for the token NAME (or its id); it expires when it would have."""
    _print_secret(Client(state).call("POST", f"/v1/tokens/{name}/rotate?grace_s={grace_s:g}"), output)


@command.command()
@click.argument("name")
@state_option
def revoke(name: str, state: Path) -> None:
    """The token NAME (or its id) opens nothing any more; sessions that it opened end."""
    found = Client(state).call("DELETE", f"/v1/tokens/{name}")
    click.echo(f"token {found['name']} ({found['id']}) is revoked")


@command.command()
@output_options
@state_option
def whoami(output: str, state: Path) -> None:
    """Who you are for this Dure, and what you may do."""
    found = Client(state).get("/v1/whoami")
    if output in ("json", "yaml"):
        print_data(found, output)
        return
    click.echo(f"{found['name']} ({found['via']})")
    print_table(["TENANT", "ROLE"], [[tenant, role] for tenant, role in sorted(found.get("grants", {}).items())])


def _print_secret(found: dict[str, Any], output: str) -> None:
    if output in ("json", "yaml"):
        print_data(found, output)
        return
    click.echo(
        f"{found['name']}: {found['role']} of {found['tenant']} until {moment(found.get('expires_s'))}", err=True
    )
    click.echo("Keep it; it is not shown again:", err=True)
    click.echo(found["secret"])
