"""Decode kernels of Qwen3.5-35B-A3B: interpreter, references, layouts and model blocks."""
