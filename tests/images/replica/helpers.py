"""Settings and a faked server for the tests of a replica's programs."""

import copy
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

RAW: dict[str, Any] = {
    "model": {
        "name": "llama",
        "source": {"kind": "huggingFace", "location": "meta/llama", "revision": "abc123"},
    },
    "variant": {
        "name": "inf2",
        "generation": 1,
        "tensorParallelDegree": 2,
        "logicalCoreSize": 1,
        "maxModelLen": 2048,
        "maxNumSeqs": 4,
        "weightDtype": "bfloat16",
        "computeDtype": "bfloat16",
        "kvCache": {"dtype": "bfloat16", "blocks": None, "blockSize": 32},
        "prefillBuckets": [],
        "decodeBuckets": [],
        "speculation": None,
        "extraArgs": [],
        "env": {},
    },
    "canary": {"prompt": "Say yes.", "maxTokens": 4, "expect": None},
    "port": 8000,
}


def changed(raw: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A copy with fields replaced: `variant__kvCache__blocks=4`."""
    made = copy.deepcopy(raw)
    for path, value in changes.items():
        *folders, name = path.split("__")
        at = made
        for folder in folders:
            at = at[folder]
        at[name] = value
    return made


def completion(text: str | None, tokens: int = 4) -> str:
    """A completion's body."""
    return json.dumps({"choices": [{"text": text}], "usage": {"completion_tokens": tokens}})


@dataclass(kw_only=True)
class FakeServer:
    """What the server says, and what it was asked."""

    port: int = 0
    running: float | None = 0
    waiting: float | None = 0
    tokens: float | None = 0
    metrics_status: int = 200
    status: int = 200
    answer: str = completion("yes")
    looks: int = 0
    questions: list[dict[str, Any]] = field(default_factory=list)
    asking: int = 0
    most_asking: int = 0
    gate: threading.Event = field(default_factory=threading.Event)
    """Answers wait until it is set."""
    on_look: Callable[["FakeServer"], None] | None = None
    """Called before each reading of the metrics."""

    def __post_init__(self) -> None:
        self.gate.set()

    def metrics(self) -> str:
        """As vLLM's /metrics says it."""
        samples = {
            "num_requests_running": self.running,
            "num_requests_waiting": self.waiting,
            "generation_tokens_total": self.tokens,
        }
        lines = ["# HELP vllm:num_requests_running Requests.", "python_info 1.0"]
        for name, value in samples.items():
            if value is not None:
                lines.append(f'vllm:{name}{{engine="0",model_name="a {{b}}"}} {float(value)}')
        lines.append('vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 7.0')
        return "\n".join(lines)
