"""`dure cluster`: let member clusters join."""

from __future__ import annotations

from pathlib import Path

import click

from dure.cli.state import state_option


@click.group()
def command() -> None:
    """Member clusters with agents of their own.

    \b
    Example:
      dure cluster join seoul
    """


@command.command()
@click.argument("name")
@state_option
def join(name: str, state: Path) -> None:
    """Print the command with which the agent of cluster NAME joins. Its token works for one agent, within a day.

    \b
    Example:
      dure cluster join seoul
    """
    from dure.cli.client import Client

    client = Client(state)
    made = client.send("POST", f"/v1/clusters/{name}/join-tokens")
    click.echo(f"dure agent --cluster {name} --plane {client.url} --kubeconfig FILE --join {made['token']}")


@command.command()
@click.argument("name")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path(), help="Where to write it.")
@state_option
def certificate(name: str, out: Path, state: Path) -> None:
    """Write a certificate for the agent of cluster NAME: agent.crt, agent.key, ca.crt; it lasts 90 days.

    For planes started with --tls --agent-certs. The key is made here and never sent. Run it again to renew.

    \b
    Example:
      dure cluster certificate seoul --out ./seoul-tls
      dure agent --cluster seoul --plane grpcs://HOST:7421 --ca ca.crt --cert agent.crt --key agent.key ...
    """
    import os

    from dure.adapters.pki import signing_request
    from dure.cli.client import Client

    key, request = signing_request(name)
    made = Client(state).call("POST", f"/v1/clusters/{name}/certificates", {"request": request})
    out.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(out / "agent.key", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(key)
    (out / "agent.crt").write_text(made["certificate"])
    (out / "ca.crt").write_text(made["authority"])
    click.echo(f"{out / 'agent.crt'}, {out / 'agent.key'} and {out / 'ca.crt'} are written")
