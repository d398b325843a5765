"""A stand-in for `nki` on a CPU: the language, its machine's limits, and a trace of what ran."""
