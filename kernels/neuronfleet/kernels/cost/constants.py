"""The figures the cost model stands on, fixed before any kernel was tuned.

Sources, by the letters used below: [A] the architecture guides of the Neuron SDK
(nki/guides/architecture/trainium_inferentia2, trainium2, trainium3), [I] the performance notes of
`nki.isa`'s reference, [K] constants and on-device runs published with KDA for Trainium, [P] chosen
by this project on the slow side where nothing is published. A kernel is made faster by changing the
kernel; changing a figure here needs a measurement and its source.
"""

from dataclasses import dataclass, replace
from typing import Final

from neuronfleet.kernels.interpreter.platforms import PLATFORMS, Platform


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """Costs on one platform. Times in microseconds, rates in GB/s, works in cycles."""

    platform: Platform
    """Clocks, and the bandwidth of one core's share of device memory [A]."""
    dependent_us: float = 0.43
    """From the end of an instruction to the start of one that waits for it: 268 ns of semaphore
    and 161 ns of drain [K]."""
    dma_us: float = 1.9
    """Before a transfer's first byte: 1.3 us to start and 0.6 us of descriptors [A]."""
    dma_stream_gb_per_s: float = 368.0
    """The most that one transfer streams: 16 DMA engines of 23 B/ns [A]."""
    dma_queues: int = 16
    """Transfers of one core under way at once; each queue runs its own in program order [A]."""
    collective_us: float = 5.0
    """An all-reduce of a token's activations within a chip: 1 to 2 us a hop [A], 3 hops."""
    collective_slow_us: float = 15.0
    """The same as a pessimist has it; printed beside, never used alone [P]."""
    pe_least_columns: int = 64
    """A matrix product of fewer moving columns costs as many [I]."""
    pe_float32_passes: int = 4
    """Passes of the PE for float32 operands [I]; [K] measured 2.2."""
    scalar_least_cycles: int = 64
    """An activation of fewer elements a partition costs as many [I]."""
    scalar_read_cycles: int = 64
    """Reading the accumulators out after an activation with a reduction [I]."""
    vector_short_cycles: int = 100
    """What a Vector instruction of few elements costs on top of them, up to 128 in all [I]."""
    vector_reciprocal_passes: int = 8
    """Cycles an element of `reciprocal` on Vector [I]."""
    gpsimd_cycles: int = 2
    """Cycles an element and input on GpSimd [P]."""
    register_us: float = 1.9
    """A register's load or store: as a DMA [P]."""

    @property
    def rank_gb_per_s(self) -> float:
        """Device memory of one rank, all its cores: 725 on trn2, whatever a lone core streams."""
        return self.platform.hbm_gb_per_second * self.platform.cores_per_logical

    @property
    def vector_fast_modes(self) -> bool:
        """Whether Vector runs 2-byte elements of SBUF 2 or 4 at a time, from trn2 on [A]."""
        return self.platform.version.value >= 3

    def with_slow_collectives(self) -> "Constants":
        """The same with the pessimist's collectives."""
        return replace(self, collective_us=self.collective_slow_us)


CONSTANTS: Final[dict[str, Constants]] = {
    name: Constants(platform=platform) for name, platform in PLATFORMS.items()
}
"""By platform name. trn1 and inf2 take trn2's latencies: none are published for them."""
