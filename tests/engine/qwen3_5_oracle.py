"""Runs in the engine environment: a tiny random Qwen3.5 MoE of transformers, weights and words.

`python qwen3_5_oracle.py OUT.npz` writes the config, every weight, and for each prompt the logits
of its prefill and of every greedy decode step, all in float32.
"""

import json
import sys

import numpy as np
import torch
from transformers import Qwen3_5MoeForCausalLM, Qwen3_5MoeTextConfig

STEPS = 64
PROMPT_LENGTHS = (1, 37, 130)
VOCABULARY = 512
CONFIG = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "linear_num_key_heads": 4,
    "linear_num_value_heads": 8,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "num_experts": 32,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 24,
    "shared_expert_intermediate_size": 40,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
}


def tiny_model() -> Qwen3_5MoeForCausalLM:
    """Seeded; noise on every weight, since norms that start at 0 or 1 would hide faults."""
    torch.manual_seed(7)
    config = Qwen3_5MoeTextConfig(**CONFIG)
    config._attn_implementation = "eager"
    model = Qwen3_5MoeForCausalLM(config).to(torch.float32).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            scale = 0.2 if weight.dim() == 1 else weight.shape[-1] ** -0.5
            weight.add_(torch.randn_like(weight) * (1.0 if "embed" in name else scale))
    return model


def greedy(model: Qwen3_5MoeForCausalLM, prompt: torch.Tensor) -> tuple[np.ndarray, ...]:
    """Logits of the prompt [n, vocabulary] and of each step, and the steps' tokens."""
    answer = model(prompt[None], use_cache=True)
    prefill = answer.logits[0].numpy()
    logits, tokens = [], []
    for _ in range(STEPS):
        tokens.append(int(answer.logits[0, -1].argmax()))
        new = torch.tensor([[tokens[-1]]])
        answer = model(new, past_key_values=answer.past_key_values, use_cache=True)
        logits.append(answer.logits[0, -1].numpy())
    return prefill, np.stack(logits), np.array(tokens)


def main(out: str) -> None:
    model = tiny_model()
    arrays = {f"weight:{name}": w.detach().numpy() for name, w in model.named_parameters()}
    rng = np.random.default_rng(11)
    for index, length in enumerate(PROMPT_LENGTHS):
        prompt = rng.integers(0, VOCABULARY, length)
        with torch.no_grad():
            prefill, logits, tokens = greedy(model, torch.from_numpy(prompt))
        arrays |= {f"prompt:{index}": prompt, f"prefill:{index}": prefill}
        arrays |= {f"logits:{index}": logits, f"tokens:{index}": tokens}
    config = np.array(json.dumps(model.config.to_dict(), default=str))
    np.savez(out, config=config, **arrays)


if __name__ == "__main__":
    main(sys.argv[1])
