"""Which timing model speaks for a variant, and how it came about."""

from neuronfleet.serving.api.architecture import Architecture, built_in
from neuronfleet.serving.api.hardware import instance_type
from neuronfleet.serving.api.variant import Variant
from neuronfleet.serving.replica import roofline
from neuronfleet.serving.replica.timing import TimingModel
from neuronfleet.serving.replica.timings import Fitted, fitted

_REFERENCE = "llama-3.1-8b"
"""The best-measured dense model: others of its kind are scaled from it."""


def timing_for(architecture: Architecture | None, variant: Variant) -> TimingModel | None:
    """The best timing model there is for a variant; None where nothing can be said."""
    if architecture is None:
        return None
    if variant.instance.is_neuron and not architecture.experts:
        own = next((one for one in fitted() if one.model == architecture.name), None)
        reference = own or next(one for one in fitted() if one.model == _REFERENCE)
        return _from_fit(reference, architecture, variant)
    return roofline.timing(architecture, variant)


def _from_fit(fit: Fitted, architecture: Architecture, variant: Variant) -> TimingModel | None:
    """A fit as it is where it was measured, else scaled by bytes and operations."""
    buckets = variant.prompt_buckets
    timing = fit.timing.for_buckets(buckets, variant.decode_buckets or buckets)
    measured_on = instance_type(fit.instance_type)
    share = fit.tensor_parallel / (measured_on.cores or 1)
    same_chip = (
        variant.instance.family == measured_on.family
        and variant.node_share * variant.instance.accelerators == share * measured_on.accelerators
    )
    if fit.model != architecture.name or not same_chip:
        return _scaled(timing, fit, share, architecture, variant)
    if variant.max_num_seqs != fit.max_num_seqs:
        slots = _compiled_slots(fit, architecture, variant)
        source = f"{timing.source}; steps scaled from {fit.max_num_seqs} compiled slots"
        return timing.scaled(prefill=1.0, decode=slots, source=source)
    return timing


def _compiled_slots(fit: Fitted, architecture: Architecture, variant: Variant) -> float:
    """How a step's cost changes with the slots that its graph is compiled for.

    Every step pays all of them, occupied or not; by the bytes that weights and that many
    sequences of max_model_len are: 8B on inf2, 32 slots 11.6 GB a rank, 8 slots 8.5 GB -> 0.73.
    """
    context = variant.max_model_len
    here = roofline.step_bytes(architecture, variant, variant.max_num_seqs, context)
    return here / roofline.step_bytes(architecture, variant, fit.max_num_seqs, context)


def _scaled(
    timing: TimingModel, fit: Fitted, share: float, architecture: Architecture, variant: Variant
) -> TimingModel | None:
    """Decode by weight bytes over bandwidth, prefill by operations over the bf16 peak."""
    here, there = variant.instance, instance_type(fit.instance_type)
    measured = built_in(fit.model)
    peaks = (here.hbm_gb_per_s, there.hbm_gb_per_s, here.bf16_tflops, there.bf16_tflops)
    if None in peaks:
        return None
    bandwidth = (there.hbm_gb_per_s or 0) * share / ((here.hbm_gb_per_s or 1) * variant.node_share)
    arithmetic = (there.bf16_tflops or 0) * share / ((here.bf16_tflops or 1) * variant.node_share)
    size = architecture.active_parameters / measured.active_parameters
    size_of_step = size * _compiled_slots(fit, architecture, variant)
    return timing.scaled(
        prefill=size * arithmetic,
        decode=size_of_step * bandwidth,
        source=f"{timing.source}; scaled by bytes and operations to {here.name}",
    )
