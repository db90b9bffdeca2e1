"""Why not: stable reason codes, each with its remedy, and the `Verdict` that every filter answers.

A filter never answers yes or no alone. It answers a verdict that names the two numbers that clash, which
is what makes `dure why` cheap and honest.
"""

from __future__ import annotations

import enum

import msgspec


class Reason(enum.StrEnum):
    NO_CAPACITY = "NoCapacity"
    FRAGMENTED = "Fragmented"
    MEMORY_TOO_SMALL = "MemoryTooSmall"
    COMPUTE_TOO_SMALL = "ComputeTooSmall"
    BANDWIDTH_TOO_SMALL = "BandwidthTooSmall"
    HOST_TOO_SMALL = "HostTooSmall"
    CLASS_NOT_ACCEPTED = "ClassNotAccepted"
    REGION_NOT_ALLOWED = "RegionNotAllowed"
    DATA_TOO_FAR = "DataTooFar"
    LATENCY_TOO_HIGH = "LatencyTooHigh"
    QUOTA_EXCEEDED = "QuotaExceeded"
    BUDGET_EXCEEDED = "BudgetExceeded"
    CARBON_BUDGET_EXCEEDED = "CarbonBudgetExceeded"
    FAIR_SHARE = "FairShare"
    TURN_OF_ANOTHER = "TurnOfAnother"
    PREEMPTED = "Preempted"
    QUOTA_RECLAIMED = "QuotaReclaimed"
    ISOLATION_TIER = "IsolationTier"
    GANG_INCOMPLETE = "GangIncomplete"
    DEADLINE_UNREACHABLE = "DeadlineUnreachable"
    WAITING_FOR_CHEAPER_HOUR = "WaitingForCheaperHour"
    WAITING_FOR_GREENER_HOUR = "WaitingForGreenerHour"
    WAITING_FOR_SPOT = "WaitingForSpot"
    SPOT_FIRST = "SpotFirst"
    STANDS_ASIDE = "StandsAside"
    WAITING_FOR_CHECKPOINT = "WaitingForCheckpoint"
    WAITING_FOR_WARM_UP = "WaitingForWarmUp"
    MOVE_NOT_WORTH_IT = "MoveNotWorthIt"
    MOVED = "Moved"
    DEADLINE_AT_RISK = "DeadlineAtRisk"
    SPOT_RECLAIMED = "SpotReclaimed"
    CLUSTER_UNREACHABLE = "ClusterUnreachable"
    STALE_FIGURES = "StaleFigures"
    POLICY_PAUSED = "PolicyPaused"
    POLICY_FORBIDS = "PolicyForbids"
    POLICY_WAITS = "PolicyWaits"
    TAINT_NOT_TOLERATED = "TaintNotTolerated"
    SELECTOR_MISMATCH = "SelectorMismatch"
    SHARE_MODE_NOT_OFFERED = "ShareModeNotOffered"
    POD_AFFINITY = "PodAffinity"
    TOPOLOGY_SPREAD = "TopologySpread"
    DISRUPTION_BUDGET = "DisruptionBudget"
    WAITING_FOR_EVICTION = "WaitingForEviction"
    CLAIM_NOT_MET = "ClaimNotMet"
    NOT_SUPPORTED = "NotSupported"


REMEDIES: dict[Reason, str] = {
    Reason.NO_CAPACITY: "Wait, accept another class, or add nodes to the pool.",
    Reason.FRAGMENTED: "Wait for a larger free group, bring devices together (dure defrag), or accept another class.",
    Reason.MEMORY_TOO_SMALL: "Ask for less memory per device or accept a class with more.",
    Reason.COMPUTE_TOO_SMALL: "Ask for a smaller share of a device or accept a faster class.",
    Reason.BANDWIDTH_TOO_SMALL: "Ask for less bandwidth or accept a class with more.",
    Reason.HOST_TOO_SMALL: "Ask for less host CPU and memory, or use nodes with more per device.",
    Reason.CLASS_NOT_ACCEPTED: "Add the class to spec.classes if the workload can run there.",
    Reason.REGION_NOT_ALLOWED: "Widen spec.regions if data residency allows it.",
    Reason.DATA_TOO_FAR: "Copy the data set nearer or raise the tenant's egress limit.",
    Reason.LATENCY_TOO_HIGH: "Loosen slo.latency, or serve from a cluster nearer to the users.",
    Reason.QUOTA_EXCEEDED: "Wait for the tenant's own workloads, raise its quota, or allow borrowing.",
    Reason.BUDGET_EXCEEDED: "Raise the tenant's money budget or wait for the next month.",
    Reason.CARBON_BUDGET_EXCEEDED: "Raise the tenant's carbon budget or wait for a greener hour or grid.",
    Reason.FAIR_SHARE: "The tenant is above its fair share while others wait; it follows in turn.",
    Reason.TURN_OF_ANOTHER: "Another has waited longer for this room; what ends before its start may use it.",
    Reason.PREEMPTED: "A higher priority took the place; the workload is queued again by itself.",
    Reason.QUOTA_RECLAIMED: "It ran on another tenant's quota, which its owner needs; it is queued again by itself.",
    Reason.ISOLATION_TIER: "Use a pool whose devices are not shared, or lower the tenant's isolation tier.",
    Reason.GANG_INCOMPLETE: "All members must fit at once; make the gang smaller or free more devices.",
    Reason.DEADLINE_UNREACHABLE: "Extend the deadline, accept a faster class, or raise the priority.",
    Reason.WAITING_FOR_CHEAPER_HOUR: "Nothing to do; set deferrable: false to start now at a higher price.",
    Reason.WAITING_FOR_GREENER_HOUR: "Nothing to do; set deferrable: false to start now on a dirtier grid.",
    Reason.WAITING_FOR_SPOT: "Nothing to do; it starts in time without spot. Set deferrable: false to start now.",
    Reason.SPOT_FIRST: "Nothing to do; its deadline can wait for that. A policy with spot: false stays off spot.",
    Reason.STANDS_ASIDE: "Nothing to do; it goes on in time from its last checkpoint. Set deferrable: false to stay.",
    Reason.WAITING_FOR_CHECKPOINT: "Nothing to do; the move follows the next checkpoint.",
    Reason.WAITING_FOR_WARM_UP: "Nothing to do; the replacement is loading the model.",
    Reason.MOVE_NOT_WORTH_IT: "Nothing to do; the saving is below the threshold of the policy.",
    Reason.MOVED: "Nothing to do; it goes on in a cheaper home from its last checkpoint.",
    Reason.DEADLINE_AT_RISK: "Nothing to do; it leaves spot for a home that is not taken back while there is time.",
    Reason.SPOT_RECLAIMED: "The provider took the node back; the workload is queued again by itself.",
    Reason.CLUSTER_UNREACHABLE: "Check that the cluster's agent runs and reaches the plane: dure get clusters",
    Reason.STALE_FIGURES: "Check the agent's clock and connection: dure get clusters",
    Reason.POLICY_PAUSED: "Apply the policy again with paused: false.",
    Reason.POLICY_FORBIDS: "Change the placement policy (dure policy show) if it should be allowed.",
    Reason.POLICY_WAITS: "The fleet's own placement policy took none of the possible homes; ask its author.",
    Reason.TAINT_NOT_TOLERATED: "Add a toleration to the pod template or remove the taint.",
    Reason.SELECTOR_MISMATCH: "Correct the node selector or label the nodes.",
    Reason.SHARE_MODE_NOT_OFFERED: "Offer the share mode on the pool (share: [...]) or ask for whole devices.",
    Reason.POD_AFFINITY: "Loosen the pod's affinity, or make room near (or far from) the pods that it names.",
    Reason.TOPOLOGY_SPREAD: "Raise maxSkew, add nodes to the emptiest domain, or let the constraint be a wish.",
    Reason.DISRUPTION_BUDGET: "Wait until the budget's pods are healthy, or let it allow a disruption.",
    Reason.WAITING_FOR_EVICTION: "Nothing to do; the place is kept until the pods that give way are gone.",
    Reason.CLAIM_NOT_MET: "Wait for devices, or loosen the claim's count or selectors.",
    Reason.NOT_SUPPORTED: "Leave out the named field, or give the pod to another scheduler.",
}


class Verdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """`wanted` and `found` are the two numbers that clash, as text with unit; no reason means yes."""

    where: str
    reason: Reason | None = None
    wanted: str = ""
    found: str = ""
    detail: str = ""

    @property
    def ok(self) -> bool:
        return self.reason is None

    @property
    def sentence(self) -> str:
        clash = f"needs {self.wanted}, {self.found}" if self.wanted and self.found else self.wanted or self.found
        return "; ".join(part for part in (clash, self.detail) if part) or (self.reason or "fits")

    @property
    def remedy(self) -> str:
        return REMEDIES[self.reason] if self.reason else ""
