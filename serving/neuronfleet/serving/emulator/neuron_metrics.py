"""The metrics that generation 2 adds: padding, graph runs and the parts of a boot."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from neuronfleet.serving.emulator.settings import ReplicaSettings
from neuronfleet.serving.replica.machine import Done, Work

_LABELS = ("model_name", "bucket_name")


class NeuronMetrics:
    """The `vllm_neuron:` families."""

    def __init__(self, settings: ReplicaSettings, registry: CollectorRegistry) -> None:
        self._settings = settings
        self._model = settings.model
        self._lines = Histogram(
            "vllm_neuron:num_seqs_padding",
            "Padded batch lines.",
            _LABELS,
            buckets=[2**power for power in range(8)],
            registry=registry,
        )
        self._tokens = Histogram(
            "vllm_neuron:num_batched_tokens_padding",
            "Padded sequence length.",
            _LABELS,
            buckets=[2**power for power in range(5, 15)],
            registry=registry,
        )
        self._runs = Counter(
            "vllm_neuron:neff_execution_count", "NEFF executions.", _LABELS, registry=registry
        )
        self._compile = Gauge(
            "vllm_neuron:compilation_time_seconds",
            "Time spent compiling graphs, cache hits included.",
            _LABELS,
            registry=registry,
        )
        names = {"startup_time_seconds": "Server start", "model_load_time_seconds": "Weight load"}
        self._times = {
            name: Gauge(f"vllm_neuron:{name}", f"{text} time.", ["model_name"], registry=registry)
            for name, text in names.items()
        }
        if settings.weights_bytes is not None:
            Gauge(
                "vllm_neuron:model_load_size_bytes",
                "Size of the weights loaded.",
                ["model_name"],
                registry=registry,
            ).labels(self._model).set(settings.weights_bytes)
        self._bound: dict[str, tuple[Histogram, Counter]] = {}

    def booted(self, weights: float, graphs: float, total: float) -> None:
        """Note the parts of a boot, in emulated seconds; all graphs weigh the same here."""
        self._times["startup_time_seconds"].labels(self._model).set(total)
        self._times["model_load_time_seconds"].labels(self._model).set(weights)
        timing = self._settings.timing
        names = [f"prefill_s{tokens}" for tokens in timing.prefill.tokens]
        names += [f"decode_s{tokens}" for tokens in timing.decode.tokens]
        for name in names:
            self._compile.labels(self._model, name).set(graphs / len(names))

    def work(self, done: Done) -> None:
        """Count a run of a graph and what it padded."""
        if not done.emitted:
            return
        timing = self._settings.timing
        if done.work is Work.PREFILL:
            prompt = done.emitted[0].prompt_tokens
            bucket = timing.prefill.edge(prompt)
            padding, runs = self._children(f"prefill_s{bucket}", self._tokens)
            padding.observe(bucket - prompt)
        else:
            longest = max(slot.length for slot in done.emitted) - 1
            bucket = max(longest, timing.decode.edge(longest))
            padding, runs = self._children(f"decode_s{bucket}", self._lines)
            occupied = len(done.emitted)
            # Batch buckets are the powers of two up to max_num_seqs.
            batch = min(self._settings.slots, 1 << (occupied - 1).bit_length())
            padding.observe(batch - occupied)
        runs.inc()

    def _children(self, name: str, padding: Histogram) -> tuple[Histogram, Counter]:
        if name not in self._bound:
            self._bound[name] = (
                padding.labels(self._model, name),
                self._runs.labels(self._model, name),
            )
        return self._bound[name]
