"""Which commands exist, what they are for, and which module holds them.

Kept apart from the commands so that `dure --help` imports none of them. Each module has a click command
named `command`.
"""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    module: str
    help: str
    section: str


RUN = "Run it, is it well"
ASK = "Ask and change"
BRAIN = "The same brain on another world"
PROCESS = "One group for each verb or process"
PEOPLE = "For people who run and pay"

COMMANDS: dict[str, Entry] = {
    "up": Entry("dure.cli.up", "Start Dure with its embedded fleet and the dashboard.", RUN),
    "status": Entry("dure.cli.status", "Is all well, what does it cost now.", RUN),
    "doctor": Entry("dure.cli.doctor", "Look at everything it hangs on; each finding with its remedy.", RUN),
    "top": Entry("dure.cli.top", "The fleet live in this terminal.", RUN),
    "version": Entry("dure.cli.version", "Print the version.", RUN),
    "completion": Entry("dure.cli.completion", "Print the completion script of a shell.", RUN),
    "get": Entry("dure.cli.get", "List workloads, clusters, pools, devices and more.", ASK),
    "submit": Entry("dure.cli.submit", "Hand workloads to Dure.", ASK),
    "plan": Entry("dure.cli.plan", "What would happen, what it would cost.", ASK),
    "apply": Entry("dure.cli.apply", "Make things what the files say.", ASK),
    "diff": Entry("dure.cli.diff", "What apply would change.", ASK),
    "check": Entry("dure.cli.check", "Check files without a server.", ASK),
    "schema": Entry("dure.cli.schema", "Print the JSON Schema of a kind of file.", ASK),
    "why": Entry("dure.cli.why", "Why it waits, or why it is where it is.", ASK),
    "logs": Entry("dure.cli.logs", "What happened to a workload.", ASK),
    "cancel": Entry("dure.cli.cancel", "Stop workloads.", ASK),
    "defrag": Entry("dure.cli.defrag", "Bring free devices together by a few moves.", ASK),
    "policy": Entry("dure.cli.policy", "Goals of the fleet: versions, history, rollback.", ASK),
    "sim": Entry("dure.cli.sim", "A week of a fleet in seconds.", BRAIN),
    "demo": Entry("dure.cli.demo", "Things to see in the embedded fleet.", BRAIN),
    "render": Entry("dure.cli.render", "Make manifests for a cluster out of the fleet.", PEOPLE),
    "cluster": Entry("dure.cli.cluster", "Let member clusters join.", PROCESS),
    "tenant": Entry("dure.cli.tenant", "Tenants, and virtual clusters of their own.", PROCESS),
    "agent": Entry("dure.cli.agent", "Run the agent and scheduler of one Kubernetes cluster.", PROCESS),
    "scale": Entry("dure.cli.scale", "Tune autoscalers on recorded traffic.", PROCESS),
    "front": Entry("dure.cli.front", "Route OpenAI-style requests by work and deadline.", PROCESS),
    "share": Entry("dure.cli.share", "Look at a shared device, and steer it.", PROCESS),
    "device": Entry("dure.cli.device", "Share a real device among tenants.", PROCESS),
    "feedback": Entry("dure.cli.feedback", "Say how a tenant's speed is.", ASK),
    "notify": Entry("dure.cli.notify", "Notices to people: what waits, silences, a test.", PEOPLE),
    "lint": Entry("dure.cli.lint", "Find known traps in Kubernetes manifests.", PEOPLE),
    "advise": Entry("dure.cli.advise", "What to rent for a model; what the fleet could save.", PEOPLE),
    "bugreport": Entry("dure.cli.bugreport", "One file for whoever is to find the fault, without secrets.", PEOPLE),
    "report": Entry("dure.cli.report", "Cost, carbon, promises and waste of the last days, as a page.", PEOPLE),
    "audit": Entry("dure.cli.audit", "Who changed what; has anybody altered it.", PEOPLE),
    "backup": Entry("dure.cli.backup", "Everything the store holds, as one file.", RUN),
    "prune": Entry("dure.cli.prune", "Cut off the oldest past; what is left stays sealed.", RUN),
    "restore": Entry("dure.cli.restore", "A backup into an empty store.", RUN),
    "migrate": Entry("dure.cli.migrate", "The schema of the database, forward or back.", RUN),
    "tls": Entry("dure.cli.tls", "The authority of dure up --tls: show, rotate.", PROCESS),
    "token": Entry("dure.cli.token", "API tokens: make, list, rotate, revoke.", PEOPLE),
    "bill": Entry("dure.cli.bill", "What a tenant was charged in a month.", PEOPLE),
    "gateway": Entry("dure.cli.gateway", "Choose Kueue queues for Jobs.", PROCESS),
    "whatif": Entry("dure.cli.whatif", "The same workloads in a changed world, side by side.", BRAIN),
    "shadow": Entry("dure.cli.shadow", "Another policy beside the live one, acting on nothing.", BRAIN),
    "bench": Entry("dure.cli.bench", "Measure Dure against named opponents.", PEOPLE),
}
ALIASES: dict[str, tuple[str, ...]] = {"ps": ("get", "workloads")}
