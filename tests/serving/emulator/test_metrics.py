import pytest

from neuronfleet.serving.emulator.metrics import token_buckets
from tests.serving.emulator.helpers import Call, Start


def test_token_buckets_end_at_the_context() -> None:
    assert token_buckets(100) == [1, 2, 5, 10, 20, 50, 100]


async def test_counts_agree_with_what_was_asked(start: Start, call: Call) -> None:
    client = call(await start())
    await client.complete(prompt=[1] * 10, max_tokens=5)
    await client.complete(prompt=[1] * 20, max_tokens=7, n=2, temperature=1)

    assert await client.metric("vllm:prompt_tokens_total") == 10 + 2 * 20
    assert await client.metric("vllm:generation_tokens_total") == 5 + 2 * 7
    assert await client.metric("vllm:request_success_total", finished_reason="length") == 3
    assert await client.metric("vllm:time_to_first_token_seconds_count") == 3
    # every token but the first of each of three sequences
    assert await client.metric("vllm:inter_token_latency_seconds_count") == 19 - 3
    assert await client.metric("vllm:request_params_n_sum") == 3
    assert await client.metric("vllm:num_requests_running") == 0


async def test_inter_token_latencies_of_a_request_sum_to_its_decode_time(
    start: Start, call: Call
) -> None:
    client = call(await start())
    await client.complete(prompt=[1] * 300, max_tokens=300, n=3, temperature=1)

    decode = await client.metric("vllm:request_decode_time_seconds_sum")
    assert await client.metric("vllm:inter_token_latency_seconds_sum") == pytest.approx(decode)


async def test_generation_2_adds_its_own_and_loses_the_process_ones(
    start: Start, call: Call
) -> None:
    client = call(await start(generation=2, weights_bytes=16_060_000_000))
    await client.complete(prompt=[1] * 100, max_tokens=5)
    _, text = await client.get("/metrics")

    runs = "vllm_neuron:neff_execution_count_total"
    assert await client.metric(runs, bucket_name="prefill_s256") == 1
    assert await client.metric(runs, bucket_name="decode_s256") == 4
    padding = "vllm_neuron:num_batched_tokens_padding_sum"
    assert await client.metric(padding, bucket_name="prefill_s256") == 156
    assert await client.metric("vllm_neuron:model_load_size_bytes") == 16_060_000_000
    assert "python_info" not in text
    assert "process_cpu_seconds" not in text


async def test_generation_1_has_the_process_ones(start: Start, call: Call) -> None:
    client = call(await start(generation=1))
    await client.complete()
    _, text = await client.get("/metrics")

    assert "python_info" in text
    assert "vllm_neuron:" not in text


async def test_an_unknown_weight_size_is_missing_and_not_zero(start: Start, call: Call) -> None:
    client = call(await start())

    assert await client.metric("vllm_neuron:model_load_size_bytes") is None


async def test_generation_1_counts_a_block_a_slot(start: Start, call: Call) -> None:
    replica = await start(generation=1, time_scale=5.0)
    client = call(replica)
    stream = await client.begin(max_tokens=2000)
    await stream.content.readline()
    usage = await client.metric("vllm:kv_cache_usage_perc")
    stream.close()

    # one of the nine blocks that eight slots have
    assert usage == pytest.approx(1 / 9)


async def test_the_emulator_tells_of_itself(start: Start, call: Call) -> None:
    client = call(await start())
    await client.complete()

    assert await client.metric("neuronfleet_emulator_time_scale") == 500
    assert await client.metric("neuronfleet_emulator_held_sequences") == 0
    assert await client.metric("neuronfleet_emulator_max_held_sequences") == 1
    assert await client.metric("neuronfleet_emulator_phase", phase="ready") == 1
    assert await client.metric("neuronfleet_emulator_phase", phase="node") == 0
    assert await client.metric("neuronfleet_emulator_lateness_seconds_count") == 4
    assert await client.metric("neuronfleet_emulator_lateness_real_milliseconds_count") == 4
