"""Sizes of a Qwen3.5 mixture-of-experts decoder, whole and as one tensor-parallel rank holds it."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """Sizes that the ops depend on. `ranked` gives those of one rank."""

    hidden: int
    """Width of the residual stream; every rank holds all of it."""
    layers: int
    full_attention_interval: int
    """Every n-th layer is attention, the rest are DeltaNet."""
    vocabulary: int
    heads: int
    """Query heads of an attention layer."""
    kv_heads: int
    head_dim: int
    rotary_dim: int
    """Leading dimensions of a head that are rotated."""
    rope_theta: float
    key_heads: int
    """Key and query heads of a DeltaNet layer; each serves value_heads / key_heads in a row."""
    value_heads: int
    key_dim: int
    value_dim: int
    conv_width: int
    """Taps of the causal convolution: the present token and conv_width - 1 past ones."""
    experts: int
    experts_per_token: int
    expert_width: int
    """Intermediate size of a routed expert."""
    shared_width: int
    """Intermediate size of the shared expert."""
    eps: float = 1e-6
    """Added under every root, of norms over heads and hidden alike."""

    @property
    def conv_channels(self) -> int:
        """Channels of the DeltaNet convolution: queries, keys and values, in this order."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim

    @property
    def value_channels(self) -> int:
        """Channels of the DeltaNet output gate and of what goes into its last projection."""
        return self.value_heads * self.value_dim

    def is_attention(self, layer: int) -> bool:
        """Whether a layer, counted from 0, is attention."""
        return (layer + 1) % self.full_attention_interval == 0

    def ranked(self, ranks: int) -> "ModelShape":
        """What one of `ranks` ranks holds; with fewer KV heads than ranks, one KV head each.

        Raises:
            ValueError: a size does not divide by the ranks.
        """
        for name in ("heads", "key_heads", "value_heads", "expert_width", "shared_width"):
            if getattr(self, name) % ranks:
                raise ValueError(f"{name} = {getattr(self, name)}, must divide by {ranks} ranks")
        if self.kv_heads % ranks and ranks % self.kv_heads:
            raise ValueError(
                f"kv_heads = {self.kv_heads}, must divide by {ranks} ranks or divide them"
            )
        return replace(
            self,
            vocabulary=-(-self.vocabulary // ranks),
            heads=self.heads // ranks,
            kv_heads=max(1, self.kv_heads // ranks),
            key_heads=self.key_heads // ranks,
            value_heads=self.value_heads // ranks,
            expert_width=self.expert_width // ranks,
            shared_width=self.shared_width // ranks,
        )


QWEN3_5_35B_A3B = ModelShape(
    hidden=2048,
    layers=40,
    full_attention_interval=4,
    vocabulary=248320,
    heads=16,
    kv_heads=2,
    head_dim=256,
    rotary_dim=64,
    rope_theta=1e7,
    key_heads=16,
    value_heads=32,
    key_dim=128,
    value_dim=128,
    conv_width=4,
    experts=256,
    experts_per_token=8,
    expert_width=512,
    shared_width=512,
)
"""From the defaults of transformers' configuration_qwen3_5_moe, which are this model's."""
