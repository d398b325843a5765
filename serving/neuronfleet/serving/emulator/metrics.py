"""vLLM's metrics of one replica: V1's names, labels and buckets, durations in emulated seconds."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from neuronfleet.serving.emulator.histogram import BatchedHistogram
from neuronfleet.serving.emulator.settings import ReplicaSettings
from neuronfleet.serving.replica.machine import Done, StepMachine, Work
from neuronfleet.serving.replica.machine import Sequence as Slot

LATENCY = (
    *(0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60),
    *(120, 240, 480, 960, 1920, 7680),
)
FIRST_TOKEN = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10),
    *(20, 40, 80, 160, 640, 2560),
)
INTER_TOKEN = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10),
    *(20, 40, 80),
)
STEP_TOKENS = (1, *(2**power for power in range(3, 15)))
CHOICES = (1, 2, 5, 10, 20)
PREEMPTIONS = (1, 2, 3, 4, 5, 10, 20)

_ZERO_COUNTERS = {
    "prefix_cache_queries": "Prefix cache queries, in tokens.",
    "prefix_cache_hits": "Prefix cache hits, in tokens.",
    "external_prefix_cache_queries": "External prefix cache queries, in tokens.",
    "external_prefix_cache_hits": "External prefix cache hits, in tokens.",
    "mm_cache_queries": "Multi-modal cache queries, in items.",
    "mm_cache_hits": "Multi-modal cache hits, in items.",
    "num_preemptions": "Preemptions; the scheduler admits for the worst case, so there are none.",
    "prompt_tokens_cached": "Cached prompt tokens.",
    "estimated_flops_per_gpu": "Estimated operations; not known here.",
    "estimated_read_bytes_per_gpu": "Estimated bytes read; not known here.",
    "estimated_write_bytes_per_gpu": "Estimated bytes written; not known here.",
}
"""Counters that stay 0 here: no prefix cache, no preemption."""
_REASONS = ("stop", "length", "abort", "error", "repetition")


def token_buckets(max_model_len: int) -> list[float]:
    """1, 2, 5, 10, ... up to the context's length."""
    bounds: list[float] = []
    power = 0
    while True:
        for mantissa in (1, 2, 5):
            if mantissa * 10**power > max_model_len:
                return bounds
            bounds.append(mantissa * 10**power)
        power += 1


class VllmMetrics:
    """The `vllm:` families; children are bound once, since steps come thousands a second."""

    def __init__(
        self, settings: ReplicaSettings, machine: StepMachine, registry: CollectorRegistry
    ) -> None:
        self._settings = settings
        self._machine = machine
        self._registry = registry
        self._labels = {"model_name": settings.model, "engine": "0"}
        self._last_step_ms = 0.0
        self._prompts = self._generations = 0
        self._gauges()
        self._counters()
        self._histograms()

    def _gauges(self) -> None:
        machine = self._machine
        running = self._gauge("num_requests_running", "Requests in the model's batches.")
        running.set_function(lambda: len(machine.running))
        waiting = self._gauge("num_requests_waiting", "Requests waiting to be processed.")
        waiting.set_function(lambda: len(machine.waiting))
        reasons = self._gauges_by("num_requests_waiting_by_reason", "Waiting by reason.", "reason")
        reasons.labels(**self._labels, reason="capacity").set_function(lambda: len(machine.waiting))
        reasons.labels(**self._labels, reason="deferred").set(0)
        sleep = self._gauges_by("engine_sleep_state", "Sleep state.", "sleep_state")
        for state in ("awake", "weights_offloaded", "discard_all"):
            sleep.labels(**self._labels, sleep_state=state).set(state == "awake")
        usage = self._gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.")
        usage.set_function(self._kv_usage)
        self._cache_info()

    def _cache_info(self) -> None:
        settings = self._settings
        labels = {
            "block_size": str(settings.block_size),
            "cache_dtype": "auto",
            "enable_prefix_caching": "False",
            "engine": "0",
            "num_gpu_blocks": str(settings.logged_kv_tokens // settings.block_size),
        }
        name, text = "vllm:cache_config_info", "Information of the LLMEngine CacheConfig"
        Gauge(name, text, list(labels), registry=self._registry).labels(**labels).set(1)

    def _kv_usage(self) -> float:
        """Generation 1 holds a block of the whole context a sequence, so this is slots used."""
        block = self._settings.block_size
        blocks = sum(-(-slot.length // block) for slot in self._machine.running.values())
        return blocks / max(1, self._settings.logged_kv_tokens // block)

    def _counters(self) -> None:
        for name, text in _ZERO_COUNTERS.items():
            self._counter(name, text)
        self._prompt_tokens = self._counter("prompt_tokens", "Prefill tokens processed.")
        self._generation_tokens = self._counter("generation_tokens", "Tokens generated.")
        sources = self._counters_by("prompt_tokens_by_source", "Prompt tokens by source.", "source")
        for source in ("local_compute", "local_cache_hit", "external_kv_transfer"):
            sources.labels(**self._labels, source=source)
        self._computed = sources.labels(**self._labels, source="local_compute")
        tiers = self._counters_by(
            "prompt_tokens_cached_by_source", "Cached prompt tokens by tier.", "source"
        )
        for tier in ("device", "host", "p2p", "disk", "external_unspecified"):
            tiers.labels(**self._labels, source=tier)
        self._rejections()
        success = self._counters_by("request_success", "Requests processed.", "finished_reason")
        self._success = {
            reason: success.labels(**self._labels, finished_reason=reason) for reason in _REASONS
        }

    def _rejections(self) -> None:
        """Of a queue limit, which is not emulated; vLLM gives these no engine label."""
        name, text = "vllm:admission_rejections", "Admissions rejected by a queue limit."
        labels = ["model_name", "reason"]
        rejections = Counter(name, text, labels, registry=self._registry)
        for reason in ("max_num_queued_reqs", "max_num_queued_tokens"):
            rejections.labels(self._settings.model, reason)

    def _histograms(self) -> None:
        tokens = token_buckets(self._settings.max_model_len)
        self._prompt = self._histogram("request_prompt_tokens", tokens)
        self._generated = self._histogram("request_generation_tokens", tokens)
        self._step = self._histogram("iteration_tokens_total", STEP_TOKENS)
        self._longest = self._histogram("request_max_num_generation_tokens", tokens)
        self._n = self._histogram("request_params_n", CHOICES)
        self._max_tokens = self._histogram("request_params_max_tokens", tokens)
        self._first = self._histogram("time_to_first_token_seconds", FIRST_TOKEN)
        self._inter = BatchedHistogram(
            "vllm:inter_token_latency_seconds",
            "Histogram of inter-token latency in seconds.",
            self._labels,
            INTER_TOKEN,
            self._registry,
        )
        self._tpot = self._histogram("request_time_per_output_token_seconds", INTER_TOKEN)
        self._e2e = self._histogram("e2e_request_latency_seconds", LATENCY)
        self._queue = self._histogram("request_queue_time_seconds", LATENCY)
        self._inference = self._histogram("request_inference_time_seconds", LATENCY)
        self._prefill = self._histogram("request_prefill_time_seconds", LATENCY)
        self._decode = self._histogram("request_decode_time_seconds", LATENCY)
        self._preempted = self._histogram("request_num_preemptions", PREEMPTIONS)
        self._kv_computed = self._histogram("request_prefill_kv_computed_tokens", tokens)

    def _gauges_by(self, name: str, text: str, label: str) -> Gauge:
        labels = [*self._labels, label]
        return Gauge(f"vllm:{name}", text, labels, registry=self._registry)

    def _counters_by(self, name: str, text: str, label: str) -> Counter:
        labels = [*self._labels, label]
        return Counter(f"vllm:{name}", text, labels, registry=self._registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        gauge = Gauge(f"vllm:{name}", text, list(self._labels), registry=self._registry)
        return gauge.labels(**self._labels)

    def _counter(self, name: str, text: str) -> Counter:
        counter = Counter(f"vllm:{name}", text, list(self._labels), registry=self._registry)
        return counter.labels(**self._labels)

    def _histogram(self, name: str, buckets: Sequence[float]) -> Histogram:
        text = f"Histogram of {name.replace('_', ' ')}."
        family = Histogram(
            f"vllm:{name}", text, list(self._labels), buckets=buckets, registry=self._registry
        )
        return family.labels(**self._labels)

    def totals(self) -> dict[str, int]:
        """Tokens since the start."""
        return {"prompt": self._prompts, "generation": self._generations}

    def work(self, done: Done) -> None:
        """Count a prefill or a decode step."""
        self._generation_tokens.inc(len(done.emitted))
        self._generations += len(done.emitted)
        if done.work is Work.PREFILL:
            for slot in done.emitted:
                self._prompts += slot.prompt_tokens
                self._prompt_tokens.inc(slot.prompt_tokens)
                self._computed.inc(slot.prompt_tokens)
                self._step.observe(slot.prompt_tokens + 1)
                self._first.observe((done.ended_ms - slot.arrived_ms) / 1000)
            return
        self._step.observe(len(done.emitted))
        # All but those just prefilled had their last token from the decode step before.
        old = 0
        for slot in done.emitted:
            if slot.produced == 2 and slot.first_ms is not None:
                self._inter.observe((done.ended_ms - slot.first_ms) / 1000, 1)
            else:
                old += 1
        if old:
            self._inter.observe((done.ended_ms - self._last_step_ms) / 1000, old)
        self._last_step_ms = done.ended_ms

    def finished(self, slot: Slot, reason: str, max_tokens: int) -> None:
        """Count a sequence that ended by itself; vLLM counts none that was aborted."""
        if slot.started_ms is None or slot.first_ms is None or slot.ended_ms is None:
            return
        self._success[reason].inc()
        decode = (slot.ended_ms - slot.first_ms) / 1000
        self._e2e.observe((slot.ended_ms - slot.arrived_ms) / 1000)
        self._queue.observe((slot.started_ms - slot.arrived_ms) / 1000)
        self._prefill.observe((slot.first_ms - slot.started_ms) / 1000)
        self._inference.observe((slot.ended_ms - slot.started_ms) / 1000)
        self._decode.observe(decode)
        self._preempted.observe(0)
        self._kv_computed.observe(slot.prompt_tokens)
        self._prompt.observe(slot.prompt_tokens)
        self._generated.observe(slot.produced)
        self._tpot.observe(decode / (slot.produced - 1) if slot.produced > 1 else 0)
        self._max_tokens.observe(max_tokens)

    def asked(self, n: int, longest: int) -> None:
        """Count a request as its answer is complete."""
        self._n.observe(n)
        self._longest.observe(longest)
