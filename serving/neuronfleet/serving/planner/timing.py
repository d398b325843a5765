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
    if fit.model == architecture.name and same_chip:
        return timing
    return _scaled(timing, fit, share, architecture, variant)


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
    return timing.scaled(
        prefill=size * arithmetic,
        decode=size * bandwidth,
        source=f"{timing.source}; scaled by bytes and operations to {here.name}",
    )
