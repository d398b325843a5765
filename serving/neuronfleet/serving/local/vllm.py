"""Real vLLM on CPU as the engine of a local fleet, with a tiny random model made on the spot."""

import asyncio
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.api.variant import Variant
from neuronfleet.serving.local.children import Child, free_port
from neuronfleet.serving.local.engine_env import cache_directory, engine_environment
from neuronfleet.serving.local.engines import Launch, Probe
from neuronfleet.serving.local.errors import LocalError

_EXPECTED_BOOT_S = 60.0
"""Real seconds that a tiny Llama takes to boot on 2 cores: 32 to 51 were seen."""
_PROBE_TOKENS = 8
_PROBES = 8
_BUILD_TIMEOUT_S = 300.0
_RECIPE = Path(__file__).with_name("tiny_model.py")

_SERVE_ENV = {
    # Gibibytes of KV cache: the least that vLLM's CPU backend takes.
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    # Two replicas share two cores: more threads than cores only wait for each other.
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "TOKENIZERS_PARALLELISM": "false",
}


class VllmEngine:
    """Replicas that are vLLM's own API server."""

    name = "vllm"

    def __init__(self, say: Callable[[str], None]) -> None:
        self._work = cache_directory()
        self._python = self._work / "engine/bin/python"
        # Named by its recipe, so that a changed one is built anew.
        recipe = hashlib.sha256(_RECIPE.read_bytes()).hexdigest()[:12]
        self._model = self._work / f"tiny-llama-{recipe}"
        self._say = say
        self._answers: list[dict[str, str]] = []

    async def prepare(self) -> None:
        """Build environment, tiny model, tokenizer, and the answers that canaries expect.

        Raises:
            LocalError: one of them could not be built.
        """
        await engine_environment(self._say)
        if not (self._model / "canaries.json").exists():
            self._say("building a tiny random Llama and its tokenizer")
            await self._build()
        self._answers = json.loads((self._model / "canaries.json").read_text())

    async def _build(self) -> None:
        child = await Child.start(
            [str(self._python), str(_RECIPE), str(self._model), str(_PROBES), str(_PROBE_TOKENS)],
            log=self._work / "tiny-model.log",
            env=_SERVE_ENV,
        )
        try:
            async with asyncio.timeout(_BUILD_TIMEOUT_S):
                code = await child.process.wait()
        except TimeoutError as wrong:
            raise LocalError("the tiny model was not built in time") from wrong
        finally:
            await child.stop()
        if code != 0:
            raise LocalError(f"the tiny model could not be built: {child.last_words()}")

    def boot_s(self, variant: Variant) -> float:
        """What such a boot took before."""
        return _EXPECTED_BOOT_S

    def runs(self, fleet: ServingFleet, variant: Variant) -> bool:
        """Every variant: the CPU stands in for whatever chip it names."""
        return True

    def ceiling(self, fleet: ServingFleet, variant: Variant) -> int:
        """max_num_seqs: the CPU's memory is not the chip's, so law 1's arithmetic says nothing."""
        return variant.max_num_seqs

    def launch(self, fleet: ServingFleet, variant: Variant, name: str, directory: Path) -> Launch:
        """Start vLLM's OpenAI server for the tiny model, under the fleet's model name."""
        port = free_port()
        arguments = (
            str(self._python),
            # The vllm command fails on the CPU package's name.
            *("-m", "vllm.entrypoints.openai.api_server"),
            *("--model", str(self._model), "--served-model-name", fleet.model.name),
            *("--host", "127.0.0.1", "--port", str(port)),
            # In bfloat16 a prompt of 3 tokens ends vLLM 0.32's worker with an illegal instruction
            # on CPUs with AMX.
            *("--dtype", "float32", "--enforce-eager", "--seed", "0"),
            *("--max-model-len", str(variant.max_model_len)),
            *("--max-num-seqs", str(variant.max_num_seqs)),
            *variant.extra_args,
        )
        env = {**_SERVE_ENV, "PATH": f"{self._python.parent}:{os.environ.get('PATH', '')}"}
        return Launch(arguments=arguments, env=env | dict(variant.env), port=port, state_port=None)

    def probe(self, fleet: ServingFleet, number: int) -> Probe:
        """A prompt whose greedy continuation transformers computed when the model was made."""
        answer: dict[str, Any] = self._answers[number % len(self._answers)]
        return Probe(
            path="completions",
            body={
                "model": fleet.model.name,
                "prompt": answer["prompt"],
                "max_tokens": _PROBE_TOKENS,
                "temperature": 0,
                "ignore_eos": True,
            },
            expected=answer["text"],
        )
