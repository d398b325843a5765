"""Make a tiny random Llama with a byte-level tokenizer. Run by the engine environment's Python.

Arguments: directory, number of canaries, tokens of each. Weights are random but seeded, the head's
scaled up, so that greedy tokens are far apart and no kernel's rounding changes one.
"""

import json
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

_VOCABULARY = 512
_CLEAR_LEAD = 0.2
"""Logits by which a canary's token must lead: far above float32's rounding."""
_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}"
    "{% endfor %}<|assistant|>"
)


def tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE, trained on a few words, so that every text encodes."""
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    raw.train_from_iterator(["one replica has slots; a queue holds what waits"] * 4, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<s>", eos_token="</s>", chat_template=_TEMPLATE
    )


def model() -> LlamaForCausalLM:
    """Two layers of 256, heads of 64, as vLLM's CPU attention wants."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=_VOCABULARY,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        bos_token_id=0,
        eos_token_id=1,
        tie_word_embeddings=False,
    )
    made = LlamaForCausalLM(config)
    with torch.no_grad():
        made.lm_head.weight.mul_(20.0)
    return made


def greedy(net: LlamaForCausalLM, ids: list[int], tokens: int) -> tuple[list[int], float]:
    """The greedy continuation, and the least lead that a chosen token had over the next."""
    made: list[int] = []
    lead = float("inf")
    with torch.no_grad():
        for _ in range(tokens):
            logits = net(torch.tensor([ids + made])).logits[0, -1].float()
            best = torch.topk(logits, 2)
            lead = min(lead, float(best.values[0] - best.values[1]))
            made.append(int(best.indices[0]))
    return made, lead


def canaries(
    words: PreTrainedTokenizerFast, net: LlamaForCausalLM, count: int, tokens: int
) -> list[dict[str, str]]:
    """Prompts with a continuation that is plain text and that no rounding can change."""
    found: list[dict[str, str]] = []
    number = 0
    while len(found) < count:
        number += 1
        prompt = f"canary {number}"
        made, lead = greedy(net, words(prompt).input_ids, tokens)
        text = words.decode(made, skip_special_tokens=True)
        if lead > _CLEAR_LEAD and text.isascii() and text.isprintable() and text.strip():
            found.append({"prompt": prompt, "text": text})
        if number > 100 * count:
            raise RuntimeError(f"only {len(found)} of {count} canaries have a clear answer")
    return found


def main(directory: Path, count: int, tokens: int) -> None:
    """Write model, tokenizer and the greedy continuation of each canary prompt."""
    words, net = tokenizer(), model()
    net.save_pretrained(directory)
    words.save_pretrained(directory)
    # Last, so that its presence says that everything is there.
    (directory / "canaries.json").write_text(json.dumps(canaries(words, net, count, tokens)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
