"""`dure gateway`: the Quota API and the Job Submission Gateway in front of Kueue."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import click

from dure.cli.garbage import collect_seldom
from dure.cli.output import moment, output_options, print_data, print_table
from dure.files.params import KUBE_NAME, NOT_NEGATIVE, OBJECT_NAME, URL
from dure.model.errors import InvalidInput, NotAllowed, NotFound, Temporary
from dure.route.policies import DEFAULT, NAMES

HERE = "http://127.0.0.1:7430"
_url = click.option(
    "--url", type=URL, default=HERE, envvar="DURE_GATEWAY_URL", show_default=True, help="Address of the gateway."
)
_namespace = click.option(
    "-n", "--namespace", type=KUBE_NAME, default="default", show_default=True, help="Namespace of the job."
)


@click.group()
def command() -> None:
    """Choose Kueue queues for Jobs.

    \b
    Example:
      dure gateway serve --kubeconfig ~/.kube/config --light-queue user-cpu-queue
      dure gateway plan job.yaml
    """


@command.command()
@click.option("--kubeconfig", type=click.Path(exists=True, dir_okay=False, path_type=Path), envvar="KUBECONFIG")
@click.option("--context", default="", help="Context of the kubeconfig.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=7430, show_default=True, help="0 takes any free one.")
@click.option("--policy", type=click.Choice(NAMES), default=DEFAULT, show_default=True)
@click.option("--default-namespace", default="default", show_default=True, help="For Jobs that name none.")
@click.option("--light-queue", default="", help="LocalQueue of jobs labelled workload-type: light-gpu.")
@click.option(
    "--stale",
    type=NOT_NEGATIVE,
    default=30.0,
    show_default=True,
    help="Seconds after which figures are too old to use.",
)
@click.option("--fail-closed", is_flag=True, help="Refuse jobs on old figures instead of leaving them unchanged.")
@click.option("--no-moves", is_flag=True, help="Never move a job that waits.")
@click.option("--no-order", is_flag=True, help="Never put a queue into another order than first come.")
@click.option("--name", default="dure", show_default=True, help="Marks its jobs; two gateways need two names.")
@click.option("--dispatch", is_flag=True, help="Name MultiKueue's worker clusters by money and carbon.")
@click.option(
    "--carbon-price",
    type=NOT_NEGATIVE,
    default=0.0,
    show_default=True,
    help="Price of a gram of CO2, for --dispatch.",
)
@click.option("--open", "everybody", is_flag=True, help="Callers without a token act as the gateway itself.")
@click.option("--state", type=click.Path(file_okay=False, path_type=Path), help="Folder for audit and durations.")
def serve(**given: Any) -> None:
    """Run the gateway until it is told to stop.

    \b
    Example:
      dure gateway serve --kubeconfig ~/.kube/config --light-queue user-cpu-queue --state ~/.dure/gateway
    """
    from dure.adapters.kueue.board import connect
    from dure.adapters.redact import guard_logs
    from dure.gateway.process import Gateway
    from dure.gateway.settings import Settings
    from dure.route import dispatch, reroute
    from dure.route.accepts import LightRule
    from dure.web.queues import gateway_pages

    guard_logs()
    if given["stale"] <= 0:
        raise InvalidInput("--stale must be positive")
    settings = Settings(
        policy=given["policy"],
        namespace=given["default_namespace"],
        light=LightRule(queue=given["light_queue"]),
        stale_s=given["stale"],
        fail_open=not given["fail_closed"],
        moves=not given["no_moves"],
        name=given["name"],
        dispatches=given["dispatch"],
        dispatching=dispatch.Settings(per_gram=given["carbon_price"]),
        reroute=reroute.Settings(orders=not given["no_order"]),
    )
    api = connect(given["kubeconfig"], given["context"])
    everybody, pages = given["everybody"], gateway_pages()
    gateway = Gateway(api, settings, given["state"], everybody=everybody, pages=pages, apart=True)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    try:
        url = gateway.start(given["host"], given["port"])
        _make_ready()
        click.echo(f"Gateway at {url} (policy {settings.policy})")
        stop.wait()
    finally:
        gateway.stop()
        api.close()


def _make_ready() -> None:
    """Keep the moments short in which other threads of this process hold up a request.

    A hundred thousand Workloads that were read at the start need not be searched for garbage again and again, and a
    thread that plans moves hands over after half a millisecond instead of five.
    """
    # Short looks at what is new; what lives on is remembered jobs, and looking through all of it is hardly ever worth
    # a pause.
    collect_seldom((2_000, 10, 1_000))
    sys.setswitchinterval(0.0005)


@command.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--policy", type=click.Choice(NAMES), help="Another policy than the gateway's.")
@_url
@output_options
def plan(file: Path, policy: str | None, url: str, output: str) -> None:
    """Which queue each Job of a file would enter, and why. Nothing is created.

    \b
    Example:
      dure gateway plan job.yaml --json
    """
    params = {"dryRun": "true", **({"policy": policy} if policy else {})}
    found = _call("POST", f"{url}/v1/jobs", params=params, content=file.read_bytes())
    if output in ("json", "yaml"):
        print_data(found, output)
        return
    rows = [(one["name"], one["queue"], one["class_name"], one["rule"], one["because"]) for one in found["jobs"]]
    print_table(("JOB", "QUEUE", "CLASS", "RULE", "BECAUSE"), rows)
    click.echo("Nothing was created.")


@command.command()
@click.argument("job", type=OBJECT_NAME)
@_namespace
@_url
@output_options
def why(job: str, namespace: str, url: str, output: str) -> None:
    """Why a job is in its queue: every choice and move.

    \b
    Example:
      dure gateway why train-1 -n research
    """
    found = _call("GET", f"{url}/v1/jobs/{namespace}/{job}/why")
    if output in ("json", "yaml"):
        print_data(found, output)
        return
    for entry in found["journal"]:
        click.echo(f"{moment(entry['at_s'])}  {entry['what']} {entry['queue']}: {entry['because']} ({entry['rule']})")
        for offer in entry.get("offers", ()):
            told = offer.get("refused") or f"would end {moment(offer.get('finish_s'))}"
            click.echo(f"    {offer['queue']}  {offer['class_name']}  {told}")


def _call(method: str, url: str, **rest: Any) -> Any:
    import httpx

    token = os.environ.get("DURE_GATEWAY_TOKEN", "")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        answer = httpx.request(method, url, headers=headers, timeout=30.0, trust_env=False, **rest)
    except httpx.TransportError as error:
        raise Temporary(f"no gateway at {url}: {error}", remedy="Start one: dure gateway serve") from error
    if answer.status_code < 400:
        return answer.json()
    body = answer.json() if "json" in answer.headers.get("content-type", "") else {}
    kinds = {401: NotAllowed, 403: NotAllowed, 404: NotFound, 503: Temporary}
    kind = kinds.get(answer.status_code, InvalidInput)
    raise kind(body.get("detail", answer.text[:200]), where=body.get("where", ""), remedy=body.get("remedy", ""))
