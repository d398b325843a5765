"""What keeps a model from being served by a variant at all, each wall with its source."""

from neuronfleet.serving.api import hardware
from neuronfleet.serving.api.evidence import serve_points
from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.api.variant import Variant
from neuronfleet.serving.planner import ceiling

COMPILER_PREFILL_LIMIT = 4096
"""Generation 1 compiles no prefill bucket of this length or more on inf2 (NCC_INLA001 at 4096,
6144, 8192 and 9216; 2048 and 3072 compile): context bisection of the Llama 3.1 8B study."""


def walls(fleet: ServingFleet, variant: Variant) -> tuple[str, ...]:
    """Every reason why the variant cannot serve the fleet's model and traffic; empty if none."""
    found = (
        _family(fleet, variant),
        _heads(fleet, variant),
        _prefill_bucket(variant),
        _lengths(fleet, variant),
        _memory(fleet, variant),
        _measured_failure(fleet, variant),
    )
    return tuple(wall for wall in found if wall)


def contributed(fleet: ServingFleet, variant: Variant) -> bool:
    """Whether only a contributed port serves this family on this generation."""
    facts = fleet.model.architecture
    if facts is None or variant.generation is None:
        return False
    return facts.family in hardware.CONTRIBUTED_FAMILIES[variant.generation]


def _family(fleet: ServingFleet, variant: Variant) -> str | None:
    facts = fleet.model.architecture
    if facts is None or variant.generation is None or contributed(fleet, variant):
        return None
    served = hardware.MODEL_FAMILIES[variant.generation]
    if facts.family in served:
        return None
    return (
        f"family {facts.family} is not served by backend generation {variant.generation} "
        f"(serves {', '.join(served)})"
    )


def _heads(fleet: ServingFleet, variant: Variant) -> str | None:
    facts = fleet.model.architecture
    if facts is None or facts.heads % variant.tensor_parallel == 0:
        return None
    return f"{facts.heads} attention heads do not divide by TP {variant.tensor_parallel}"


def _prefill_bucket(variant: Variant) -> str | None:
    if variant.generation != 1:
        return None
    last = variant.prompt_buckets[-1]
    if last < COMPILER_PREFILL_LIMIT:
        return None
    return (
        f"prefill bucket {last} does not compile on generation 1 (NCC_INLA001 from "
        f"{COMPILER_PREFILL_LIMIT}); keep buckets.prefill at or below 3072"
    )


def _lengths(fleet: ServingFleet, variant: Variant) -> str | None:
    prompt, output = fleet.traffic.input_tokens.longest, fleet.traffic.output_tokens.longest
    if prompt + output > variant.max_model_len:
        return f"requests of {prompt} + {output} tokens exceed maxModelLen {variant.max_model_len}"
    if variant.generation is not None and prompt >= variant.prompt_buckets[-1]:
        return f"prompts of {prompt} tokens need a prefill bucket longer than them"
    return None


def _memory(fleet: ServingFleet, variant: Variant) -> str | None:
    facts = fleet.model.architecture
    if facts is None or ceiling.memory_slots(facts, variant) != 0:
        return None
    gib = 2**30
    weights = facts.weight_bytes(variant.weight_dtype) / gib
    sequence = ceiling.sequence_bytes(facts, variant) / gib
    memory = (variant.instance.hbm_gib or 0) * variant.node_share
    return (
        f"{weights:.1f} GiB of weights and {sequence:.2f} GiB for one sequence do not fit "
        f"{memory:.0f} GiB of device memory"
    )


def _measured_failure(fleet: ServingFleet, variant: Variant) -> str | None:
    """A model that was tried on this chip and of which no run was good."""
    facts = fleet.model.architecture
    if facts is None:
        return None
    tried = [
        point
        for point in serve_points()
        if point.model.lower().startswith(facts.name) and point.instance_type == _like(variant)
    ]
    if not tried or any(point.status == "ok" for point in tried):
        return None
    return f"measured: the engine died at its first decode step ({tried[0].source})"


def _like(variant: Variant) -> str:
    """The measured type with the same chip: inf2.8xlarge is inf2.xlarge with more host."""
    return "inf2.xlarge" if variant.instance.family == "inferentia2" else variant.instance.name
