"""A replica that behaves as vLLM-Neuron does, over HTTP, in time that the step machine gives."""
