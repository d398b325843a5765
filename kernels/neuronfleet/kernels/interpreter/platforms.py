"""What each chip has: memories, clocks and rules. Figures are per NeuronCore.

Source: the architecture guides of the Neuron SDK (trainium_inferentia2, trainium2, trainium3).
"""

from dataclasses import dataclass
from enum import Enum
from functools import total_ordering
from typing import Final

KIB = 1024


@total_ordering
class nc_version(Enum):
    """Generation of the NeuronCore."""

    gen2 = 2
    gen3 = 3
    gen4 = 4

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, nc_version):
            return NotImplemented
        return int(self.value) < int(other.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """Engine clocks in GHz."""

    tensor: float
    vector: float
    scalar: float
    gpsimd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """One chip, as far as a kernel can see it."""

    name: str
    version: nc_version
    sbuf_partition_bytes: int
    """SBUF of one partition, all of it."""
    sbuf_reserved_bytes: int
    """Of that, what compiler and runtime keep: 16 KiB, on v3 528 bytes more (nki-library)."""
    clocks: Clocks
    hbm_gb_per_second: float
    """Read and write bandwidth of one NeuronCore's share."""
    cores_per_logical: int
    """The most NeuronCores that one kernel can span (LNC)."""
    moving_free_max: int
    """Free elements of a matrix product's moving tile, float32 destination."""
    bf16_accumulation: bool
    """Whether a matrix product may write bfloat16."""
    partitions: int = 128
    psum_banks: int = 8
    psum_bank_bytes: int = 2 * KIB
    """Bytes of one bank in one partition: 512 float32."""

    @property
    def sbuf_usable_bytes(self) -> int:
        """SBUF that a kernel may use in each partition."""
        return self.sbuf_partition_bytes - self.sbuf_reserved_bytes

    @property
    def psum_partition_bytes(self) -> int:
        """PSUM of one partition, all banks."""
        return self.psum_banks * self.psum_bank_bytes

    def start_partitions(self, count: int) -> tuple[int, ...]:
        """Partitions at which a compute engine can start an access of so many partitions."""
        if count > 64:
            return (0,)
        return (0, 64) if count > 32 else (0, 32, 64, 96)


TRN2: Final = Platform(
    name="trn2",
    version=nc_version.gen3,
    sbuf_partition_bytes=224 * KIB,
    sbuf_reserved_bytes=16 * KIB + 528,
    clocks=Clocks(tensor=2.4, vector=0.96, scalar=1.2, gpsimd=1.2),
    hbm_gb_per_second=362.5,  # 2.9 TB/s over 8 cores
    cores_per_logical=2,
    moving_free_max=512,
    bf16_accumulation=False,
)
_V2_CLOCKS: Final = Clocks(tensor=2.8, vector=1.12, scalar=1.4, gpsimd=1.4)
TRN1: Final = Platform(
    name="trn1",
    version=nc_version.gen2,
    sbuf_partition_bytes=192 * KIB,
    sbuf_reserved_bytes=16 * KIB,
    clocks=_V2_CLOCKS,
    hbm_gb_per_second=410.0,  # 820 GB/s over 2 cores
    cores_per_logical=1,
    moving_free_max=512,
    bf16_accumulation=False,
)
INF2: Final = Platform(
    name="inf2",
    version=nc_version.gen2,
    sbuf_partition_bytes=192 * KIB,
    sbuf_reserved_bytes=16 * KIB,
    clocks=_V2_CLOCKS,
    hbm_gb_per_second=410.0,
    cores_per_logical=1,
    moving_free_max=512,
    bf16_accumulation=False,
)
TRN3: Final = Platform(
    name="trn3",
    version=nc_version.gen4,
    sbuf_partition_bytes=256 * KIB,
    sbuf_reserved_bytes=16 * KIB + 528,
    clocks=Clocks(tensor=2.4, vector=1.2, scalar=1.2, gpsimd=1.2),
    hbm_gb_per_second=587.5,  # 4.7 TB/s over 8 cores
    cores_per_logical=2,
    moving_free_max=4096,
    bf16_accumulation=True,
)
PLATFORMS: Final[dict[str, Platform]] = {p.name: p for p in (TRN2, TRN1, INF2, TRN3)}
