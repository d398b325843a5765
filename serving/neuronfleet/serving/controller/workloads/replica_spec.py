"""What the process in a replica's pod is told: one JSON, in the fleet's own words."""

import json
from typing import Any

from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.api.variant import Variant

PORT = 8000
REPLICA_ENV = "NEURONFLEET_REPLICA"


def replica_json(fleet: ServingFleet, variant: Variant) -> str:
    """The JSON, keys in a fixed order. `generation` is absent on a GPU, unknowns are null."""
    source = fleet.model.source
    document = {
        "model": {
            "name": fleet.model.name,
            "source": {
                "kind": str(source.kind),
                "location": source.location,
                "revision": source.revision,
            },
        },
        "variant": _variant(variant),
        "canary": _canary(fleet),
        "port": PORT,
    }
    # In ASCII: the API server reads an apply as YAML, which takes no raw control characters.
    return json.dumps(document, separators=(",", ":"))


def _variant(variant: Variant) -> dict[str, Any]:
    generation = {} if variant.generation is None else {"generation": variant.generation}
    speculation = variant.speculation
    return {
        "name": variant.name,
        **generation,
        "tensorParallelDegree": variant.tensor_parallel,
        "logicalCoreSize": variant.logical_core_size,
        "maxModelLen": variant.max_model_len,
        "maxNumSeqs": variant.max_num_seqs,
        "weightDtype": variant.weight_dtype,
        "computeDtype": variant.compute_dtype,
        "kvCache": {
            "dtype": variant.kv_cache.dtype,
            "blocks": variant.kv_cache.blocks,
            "blockSize": variant.kv_cache.block_size,
        },
        "prefillBuckets": list(variant.prefill_buckets),
        "decodeBuckets": list(variant.decode_buckets),
        "speculation": speculation
        and {
            "method": speculation.method,
            "draftModel": speculation.draft_model,
            "tokens": speculation.tokens,
        },
        "extraArgs": list(variant.extra_args),
        "env": dict(variant.env),
    }


def _canary(fleet: ServingFleet) -> dict[str, Any]:
    canary = fleet.canary
    return {
        "prompt": canary.prompt,
        "maxTokens": canary.max_tokens,
        "expect": canary.expect,
    }


def literal(text: str) -> str:
    """`text` as an environment value that Kubernetes does not expand: `$(HOME)` stays."""
    return text.replace("$", "$$")
