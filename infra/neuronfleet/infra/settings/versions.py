"""Which SDK, AMI and Kubernetes run together, as far as a release note tells."""

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources

from neuronfleet.serving.api import hardware, pins
from neuronfleet.serving.api.variant import Pins, Variant

KUBERNETES = ("1.33", "1.34", "1.35", "1.36")
"""That EKS runs and a published kubectl layer serves."""


@cache
def known_amis() -> Mapping[str, tuple[str, str]]:
    """First and last AMI release known to work, by SDK; an SDK of which none is known is absent."""
    text = resources.files("neuronfleet.serving.api").joinpath("pins.json").read_text()
    rows = json.loads(text)["good"]
    return {row["sdk"]: (row["ami"][0], row["ami"][1]) for row in rows if row["ami"]}


def amis_of(sdk: str) -> tuple[str, str] | None:
    """First and last AMI release known to work with an SDK, patch releases alike."""
    known = known_amis()
    minor = ".".join(sdk.split(".")[:2])
    return known.get(minor)


def sdk_clash(instance_type: str, sdk: str) -> str | None:
    """What an SDK must be for the type's chip, with its source; None where some backend runs it."""
    found = [pins.check(variant, ()) for variant in _variants(instance_type, sdk, None)]
    if not found or not all(found):
        return None
    clash = found[0][0]
    return f"{clash.allowed} on {instance_type} ({clash.source})"


def ami_known(instance_type: str, sdk: str, ami: str) -> bool:
    """Whether a release note says that this AMI's driver runs this SDK."""
    return any(
        not pins.check(variant, ()) and not pins.unknowns(variant, ())
        for variant in _variants(instance_type, sdk, ami)
    )


def newest_sdk(instance_type: str, generation: int | None = None) -> str | None:
    """The newest SDK that runs on the type's chip and of which an AMI is known."""
    fitting = [
        sdk
        for sdk in known_amis()
        if any(
            not pins.check(variant, ())
            for variant in _variants(instance_type, sdk, None)
            if generation in (None, variant.generation)
        )
    ]
    return max(fitting, key=_numbers, default=None)


def _variants(instance_type: str, sdk: str, ami: str | None) -> list[Variant]:
    """One variant for each backend generation that the type runs."""
    known = hardware.catalog().get(instance_type)
    if known is None:
        return []
    return [
        Variant(
            name="pool",
            instance=known,
            generation=generation,
            pins=Pins(sdk=sdk, ami=ami),
            max_model_len=1,
            max_num_seqs=1,
        )
        for generation in known.generations
    ]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
