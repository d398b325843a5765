"""Where a replica's weights come from: volumes, environment and identity."""

from dataclasses import dataclass
from typing import Any

from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.api.model import SourceKind

MODELS = "/models"
TMP = "/tmp"
REMOTE = (SourceKind.HUGGING_FACE, SourceKind.S3)
"""Sources that a replica fetches over the network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What a pod needs to reach the weights."""

    env: tuple[dict[str, Any], ...]
    volumes: tuple[dict[str, Any], ...] = ()
    mounts: tuple[dict[str, Any], ...] = ()


def weights(fleet: ServingFleet) -> Weights:
    """The parts of a pod by the model's source.

    A hub's or S3's files are fetched into an emptyDir, which outlives a container but not its
    pod. A claim is mounted whole and read-only: the replica finds the path in it under /models.
    A path is already there, in the image or by the podTemplate.
    """
    source = fleet.model.source
    if source.kind is SourceKind.PVC:
        claim = source.location.partition("/")[0]
        return Weights(
            env=_caches(TMP),
            volumes=({"name": "models", "persistentVolumeClaim": {"claimName": claim}},),
            mounts=({"name": "models", "mountPath": MODELS, "readOnly": True},),
        )
    if source.kind not in REMOTE:
        return Weights(env=_caches(TMP))
    env = _caches(MODELS)
    if source.kind is SourceKind.HUGGING_FACE and source.secret:
        reference = {"secretKeyRef": {"name": source.secret, "key": "token"}}
        env = (*env, {"name": "HF_TOKEN", "valueFrom": reference})
    return Weights(
        env=env,
        volumes=({"name": "models", "emptyDir": {}},),
        mounts=({"name": "models", "mountPath": MODELS},),
    )


def _caches(files: str) -> tuple[dict[str, Any], ...]:
    """Every cache in a writable place: the root file system is read-only."""
    places = {
        "HOME": TMP,
        # torch asks who it is, and the user of a pod is in no passwd file.
        "USER": "replica",
        "HF_HOME": f"{files}/huggingface",
        "XDG_CACHE_HOME": f"{TMP}/cache",
        "XDG_CONFIG_HOME": f"{TMP}/config",
        "VLLM_CACHE_ROOT": f"{TMP}/vllm",
    }
    return tuple({"name": name, "value": value} for name, value in places.items())
