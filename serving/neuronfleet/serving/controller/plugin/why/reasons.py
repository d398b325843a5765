"""What each reason of a decision means, and which state of a condition is as it should be."""

from collections.abc import Mapping

from neuronfleet.serving.api.status import ConditionType, StatusCondition
from neuronfleet.serving.planner.decide import Reason

SENTENCES: Mapping[Reason, str] = {
    Reason.STEADY: "the load fits the replicas that are there, and fewer would not do",
    Reason.SLOTS: "the load needs more slots than the replicas had, so the fleet grows",
    Reason.PREFILL: (
        "the slots would do, but requests arrive faster than the replicas can prefill their "
        "prompts within the objective, so the fleet grows"
    ),
    Reason.BELOW_MINIMUM: "fewer replicas were there than the spec's minimum, so the fleet grows",
    Reason.ABOVE_MAXIMUM: "more replicas were there than the spec's maximum, so the fleet shrinks",
    Reason.AT_MAXIMUM: "the load needs more replicas, and the spec's maximum allows no more",
    Reason.LESS_LOAD: "a whole boot time's load has needed fewer replicas, so the fleet shrinks",
    Reason.IDLE: "no request has come for idleAfter, so the fleet goes to zero",
    Reason.UNKNOWN: (
        "the metrics do not say what every replica does: the fleet may grow and does not shrink"
    ),
    Reason.WATCHING: (
        "fewer replicas would do, but the load was not watched for a whole window yet: "
        "the fleet does not shrink before"
    ),
    Reason.NO_CAPACITY: "the load needs more replicas, and no variant finds a node for them",
    Reason.BUDGET: "the load needs more replicas, and the budget allows no more",
}

GOOD: Mapping[ConditionType, str | None] = {
    ConditionType.READY: "True",
    ConditionType.PROGRESSING: None,
    ConditionType.METRICS_AVAILABLE: "True",
    ConditionType.SCALING_LIMITED: "False",
    ConditionType.CAPACITY_AVAILABLE: "True",
    ConditionType.GRAPH_CACHE_READY: "True",
    ConditionType.DEGRADED: "False",
}
"""Status of each condition where all is well; None where either is."""


def sentence(reason: str | None) -> str:
    """What a reason means, in words; a newer controller may have others."""
    if reason is None:
        return "no decision is known: the controller has written none"
    known = {str(one): text for one, text in SENTENCES.items()}
    return known.get(reason, "a reason that this version of the plugin does not know")


def well(condition: StatusCondition) -> bool:
    """Whether a condition is as it should be; one that nobody reports yet says nothing."""
    if condition.reason == "NotReported" or condition.type not in list(ConditionType):
        return True
    return GOOD[ConditionType(condition.type)] in (None, condition.status)
