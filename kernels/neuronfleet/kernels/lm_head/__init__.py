"""A tile of the language model head: logits of a slice of the vocabulary."""
