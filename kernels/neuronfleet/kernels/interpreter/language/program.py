"""What a program can ask about itself and its machine."""

from neuronfleet.kernels.interpreter import access
from neuronfleet.kernels.interpreter.context import current, running
from neuronfleet.kernels.interpreter.memory import MemoryRegion
from neuronfleet.kernels.interpreter.objects import NKIObject
from neuronfleet.kernels.interpreter.platform_choice import chosen_platform
from neuronfleet.kernels.interpreter.platforms import Platform
from neuronfleet.kernels.interpreter.tensors import NkiTensor


def program_id(axis: int = 0) -> int:
    """This core's place in the launch grid."""
    return current().core


def num_programs(axes: int = 0) -> int:
    """Cores of the launch grid."""
    return current().cores


def program_ndim() -> int:
    """Dimensions of the launch grid: 0 for one core."""
    return 1 if current().cores > 1 else 0


def device_print(print_prefix: str, tensor: NkiTensor) -> None:
    """Print a tensor."""
    print(print_prefix, access.read(tensor))


def no_reorder() -> None:
    """Keep the program's order, which this interpreter does anyway."""


def is_hbm(buffer: object) -> bool:
    """Whether a buffer is in HBM."""
    return buffer in (MemoryRegion.private_hbm, MemoryRegion.shared_hbm)


def is_on_chip(buffer: object) -> bool:
    """Whether a buffer is SBUF or PSUM."""
    return buffer in (MemoryRegion.sbuf, MemoryRegion.psum)


def is_psum(buffer: object) -> bool:
    """Whether a buffer is PSUM."""
    return buffer is MemoryRegion.psum


def is_sbuf(buffer: object) -> bool:
    """Whether a buffer is SBUF."""
    return buffer is MemoryRegion.sbuf


def _platform() -> Platform:
    core = running()
    return core.settings.platform if core is not None else chosen_platform()


class TileSize(NKIObject):
    """Sizes of tiles; those of SBUF are the platform's."""

    pmax = 128
    psum_fmax = 512
    psum_bank_fmax = 512
    psum_bank_fmax_bytes = 2048
    gemm_stationary_fmax = 128
    gemm_moving_fmax = 512
    bn_stats_fmax = 512
    psum_min_align = 4
    sbuf_min_align = 1

    @property
    def psum_num_banks(self) -> int:
        """PSUM banks a partition."""
        return 8

    @property
    def sbuf_size_bytes(self) -> int:
        """SBUF of all partitions."""
        platform = _platform()
        return platform.sbuf_partition_bytes * platform.partitions

    @property
    def sbuf_fmax_bytes(self) -> int:
        """Usable SBUF of one partition."""
        return _platform().sbuf_usable_bytes

    @property
    def sbuf_fmax(self) -> int:
        """The same in float32 elements."""
        return self.sbuf_fmax_bytes // 4

    @property
    def total_available_sbuf_size(self) -> int:
        """An older name of `sbuf_fmax_bytes`."""
        return self.sbuf_fmax_bytes


tile_size = TileSize()
