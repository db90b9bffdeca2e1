"""Labels, annotations and object names: everything that Dure writes on others' objects is spelled here once."""

from __future__ import annotations

import hashlib
import re

GROUP = "dure.dev"
API_VERSION = f"{GROUP}/v1alpha1"
SCHEDULER = "dure"

UID = f"{GROUP}/uid"
WORKLOAD = f"{GROUP}/workload"
TENANT = f"{GROUP}/tenant"
POOL = f"{GROUP}/pool"
CLASS = f"{GROUP}/class"
# What one pod asks for, as JSON of `model.Pod`; on pods that Dure makes.
POD = f"{GROUP}/pod"
# What the pods of a Job ask of their nodes (`manifests.Ask.shape`); on Jobs.
ASKED = f"{GROUP}/asked"
# What a bound pod holds, as JSON of its slices; written by the Binding itself.
SLICE = f"{GROUP}/slice"
# Which agent, in which term of office, bound or evicted it; compared with the Lease by the API server.
LEADER = f"{GROUP}/leader"
# On pods: when it last kept a checkpoint, in Unix seconds; or the name of the gauge that shows it.
CHECKPOINTED = f"{GROUP}/checkpointed"
CHECKPOINT_METRIC = f"{GROUP}/checkpoint-metric"
# On pods whose engines sleep in turn: the label of the one that serves, which a Service selects on; since when one is
# its node's next, since when one drains, and when one could not be woken, in Unix seconds.
AWAKE = f"{GROUP}/awake"
NEXT_SINCE = f"{GROUP}/next-since"
DRAINS_SINCE = f"{GROUP}/drains-since"
WAKE_FAILED = f"{GROUP}/wake-failed"
# How Dure wants the devices of a node cut, as JSON from device to mode; on nodes.
MODES = f"{GROUP}/modes"
MIG_LAYOUT = f"{GROUP}/mig-layout"
# On nodes: when the cloud takes it back, in Unix seconds; written by whoever hears its notice.
RECLAIM_AT = f"{GROUP}/reclaim-at"

MIG_CONFIG = "nvidia.com/mig.config"
MIG_STATE = "nvidia.com/mig.config.state"
PLUGIN_CONFIG = "nvidia.com/device-plugin.config"
# Which of the plugin's configurations means `mps` or `timeslice` on a node; without it, the one of that name.
PLUGIN_CONFIG_OF = f"{GROUP}/plugin-config."
GPU_COUNT = "nvidia.com/gpu.count"
GPU_REPLICAS = "nvidia.com/gpu.replicas"
GPU_STRATEGY = "nvidia.com/gpu.sharing-strategy"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"

_LONGEST = 40


def object_name(workload: str, key: str) -> str:
    """Readable, and different for different keys; short enough for the suffixes that controllers add."""
    plain = re.sub(r"[^a-z0-9-]+", "-", workload.lower()).strip("-")[:_LONGEST].strip("-") or "workload"
    return f"{plain}-{hashlib.blake2b(key.encode(), digest_size=3).hexdigest()}"


def namespace_of(tenant: str) -> str:
    plain = re.sub(r"[^a-z0-9-]+", "-", tenant.lower()).strip("-") or "none"
    return f"dure-{plain}"[:63].rstrip("-")


def label_value(text: str) -> str:
    """At most 63 characters, beginning and ending with a letter or digit."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:63].strip("-_.")
