"""Emulated replicas as child processes: the default engine of a local fleet."""

import sys
from pathlib import Path

from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.api.variant import Variant
from neuronfleet.serving.emulator.settings import BootSettings, ReplicaSettings, to_json
from neuronfleet.serving.emulator.tokens import expected_text
from neuronfleet.serving.local.children import free_port
from neuronfleet.serving.local.engines import Launch, Probe
from neuronfleet.serving.local.scenario import LocalRun
from neuronfleet.serving.planner.ceiling import ceiling
from neuronfleet.serving.planner.timing import timing_for
from neuronfleet.serving.planner.walls import walls
from neuronfleet.serving.replica.timing import Basis

_PROBE_TOKENS = 4


class EmulatedEngine:
    """Replicas that behave as vLLM-Neuron does, with the timing model of their variant."""

    name = "emulated"

    def __init__(self, run: LocalRun) -> None:
        self._run = run

    async def prepare(self) -> None:
        """Nothing is shared between emulated replicas."""

    def boot_s(self, variant: Variant) -> float:
        """The sum of the declared phases."""
        return self._run.boot.total_s

    def runs(self, fleet: ServingFleet, variant: Variant) -> bool:
        """Neuron variants that no wall blocks and whose timing is more than a bound."""
        timing = timing_for(fleet.model.architecture, variant)
        timed = timing is not None and timing.basis is not Basis.ROOFLINE
        return variant.instance.is_neuron and timed and not walls(fleet, variant)

    def ceiling(self, fleet: ServingFleet, variant: Variant) -> int:
        """Law 1."""
        return ceiling(fleet.model.architecture, variant).slots

    def launch(self, fleet: ServingFleet, variant: Variant, name: str, directory: Path) -> Launch:
        """Settings written as JSON, read by the emulator's own module.

        Raises:
            SpecError: no timing model can be had for the variant.
        """
        port, state_port = free_port(), free_port()
        settings = directory / f"{name}.json"
        settings.write_text(to_json(self.settings(fleet, variant, port, state_port)))
        module = "neuronfleet.serving.emulator"
        arguments = (sys.executable, "-m", module, "--settings", str(settings))
        return Launch(
            arguments=(*arguments, "--die-with-parent"), env={}, port=port, state_port=state_port
        )

    def settings(
        self, fleet: ServingFleet, variant: Variant, port: int, state_port: int | None
    ) -> ReplicaSettings:
        """What one emulated replica of a variant is."""
        timing = timing_for(fleet.model.architecture, variant)
        if timing is None or variant.generation is None:
            raise SpecError(
                f"variant = {variant.name} on {variant.instance.name}, must be a Neuron variant "
                "of a model whose architecture is known, to be emulated"
            )
        run = self._run
        return ReplicaSettings(
            models=(fleet.model.name,),
            timing=timing,
            slots=self.ceiling(fleet, variant),
            max_model_len=variant.max_model_len,
            port=port,
            state_port=state_port,
            boot=BootSettings(
                node_seconds=run.boot.node_s,
                image_seconds=run.boot.image_s,
                weights_seconds=run.boot.weights_s,
                graphs_hit_seconds=run.boot.graphs_s,
                graphs_miss_seconds=run.boot.graphs_missed_s,
                warm_up_seconds=run.boot.warm_up_s,
            ),
            generation=variant.generation,
            time_scale=run.time_scale,
            stream_interval=run.stream_interval,
            void_above_ms=0.05 * fleet.objective.ttft_ms,
            drain_seconds=fleet.drain_s,
        )

    def probe(self, fleet: ServingFleet, number: int) -> Probe:
        """A prompt of its own each time, so that no cached answer passes."""
        prompt = f"canary {number} of {fleet.name}"
        return Probe(
            path="completions",
            body={
                "model": fleet.model.name,
                "prompt": prompt,
                "max_tokens": _PROBE_TOKENS,
                "temperature": 0,
                "ignore_eos": True,
            },
            expected=expected_text(prompt, _PROBE_TOKENS),
        )
