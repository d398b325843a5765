#!/usr/bin/env python3
"""The command vllm of an image without Neuron: `vllm serve`, answered by the emulator."""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import uvloop

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.api.variant import default_buckets
from neuronfleet.serving.emulator.serve import ReplicaSettings, from_mapping, run
from neuronfleet.serving.emulator.server import print_line
from neuronfleet.serving.replica.timings import timing_of

DEFAULT_MODEL = "Llama-3.1-8B-Instruct"
"""Its timing on inf2.xlarge, the best-measured there is, serves for any model."""
_NUMBERS = {
    "EMULATOR_TIME_SCALE": "time_scale",
    "EMULATOR_DRAIN_SECONDS": "drain_seconds",
    "EMULATOR_SLOW_BOOT_FACTOR": "slow_boot_factor",
}
_WHOLE = {"EMULATOR_STATE_PORT": "state_port", "EMULATOR_STREAM_INTERVAL": "stream_interval"}


def parser() -> argparse.ArgumentParser:
    """The flags of `vllm serve` that the emulator understands."""
    line = argparse.ArgumentParser(prog="vllm", description=__doc__, allow_abbrev=False)
    serve = line.add_subparsers(dest="command", required=True).add_parser(
        "serve", allow_abbrev=False
    )
    serve.add_argument("model")
    serve.add_argument("--served-model-name", nargs="+")
    serve.add_argument("--host", default="0.0.0.0")
    serve.add_argument("--port", type=int, default=8000)
    serve.add_argument("--tensor-parallel-size", type=int, default=1)
    serve.add_argument("--max-model-len", type=int, default=2048)
    serve.add_argument("--max-num-seqs", type=int, default=32)
    serve.add_argument("--num-gpu-blocks-override", type=int)
    serve.add_argument("--block-size", type=int, default=32)
    serve.add_argument("--stream-interval", type=int, default=1)
    serve.add_argument("--additional-config", type=json.loads, default={})
    return line


def settings_of(
    arguments: Sequence[str], environ: Mapping[str, str]
) -> tuple[ReplicaSettings, list[str]]:
    """The emulated replica, and the arguments that mean nothing to it.

    Raises:
        SpecError: a flag or a variable is out of its range.
    """
    options, unknown = parser().parse_known_args(arguments)
    if options.model.startswith("/") and not Path(options.model).is_dir():
        raise SpecError(f"model = {options.model}, must be a directory or a hub id")
    raw: dict[str, Any] = {
        "models": options.served_model_name or [options.model],
        "slots": options.max_num_seqs,
        "max_model_len": options.max_model_len,
        "host": options.host,
        "port": options.port,
        "stream_interval": options.stream_interval,
        "generation": 1 if "override_neuron_config" in options.additional_config else 2,
        "timing": _timing(options, environ),
        **_from_environment(environ),
    }
    blocks = options.num_gpu_blocks_override
    if raw["generation"] == 2 and blocks is not None:
        raw["kv_tokens"] = blocks * options.block_size
    return from_mapping(json.loads(json.dumps(raw))), unknown


def _timing(options: argparse.Namespace, environ: Mapping[str, str]) -> object:
    given = environ.get("EMULATOR_TIMING")
    if given:
        return _json("EMULATOR_TIMING", given)
    timing = timing_of(DEFAULT_MODEL, None)
    if timing is None:
        raise SpecError(f"EMULATOR_TIMING is missing, and no timing of {DEFAULT_MODEL} is carried")
    config = options.additional_config
    first, second = config.get("override_neuron_config", {}), config.get("neuron_config", {})
    longest = options.max_model_len
    prefill = first.get("context_encoding_buckets") or second.get("num_batched_tokens_buckets")
    decode = first.get("token_generation_buckets") or second.get("decode_context_length_buckets")
    prompts = sorted({*(prefill or default_buckets(longest)), longest})
    lengths = sorted({*(decode or default_buckets(longest)), longest})
    return asdict(timing.for_buckets(tuple(prompts), tuple(lengths)))


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for variable, name in (_NUMBERS | _WHOLE).items():
        if text := environ.get(variable):
            values[name] = _json(variable, text)
    if text := environ.get("EMULATOR_BOOT_SECONDS"):
        seconds = _json("EMULATOR_BOOT_SECONDS", text)
        # One number is the whole boot, by far the most of which is the weights' way to the device.
        values["boot"] = seconds if isinstance(seconds, dict) else {"weights_seconds": seconds}
    if text := environ.get("EMULATOR_FAULTS"):
        values["faults"] = [one.strip() for one in text.split(",")]
    return values


def _json(variable: str, text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise SpecError(f"{variable} = {text[:40]!r}, must be JSON: {error}") from error


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Run until a signal comes."""
    try:
        settings, unknown = settings_of(arguments, environ)
    except SpecError as error:
        sys.exit(f"vllm (emulated): {error}")
    print_line(
        "INFO This vLLM is the emulator: every figure of this server is emulated, at "
        f"{settings.time_scale:g} emulated seconds a second, timing of {settings.timing.source}"
    )
    if unknown:
        print_line(f"INFO Without meaning where vLLM is emulated: {' '.join(unknown)}")
    uvloop.run(run([settings]))


if __name__ == "__main__":
    main(sys.argv[1:], os.environ)
