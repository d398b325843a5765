"""Plans of the examples: the study's figures from evidence, walls by name, crossovers by number."""

from dataclasses import replace
from pathlib import Path

import pytest

from neuronfleet.serving.api import fleet, prices
from neuronfleet.serving.api.architecture import built_in
from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.api.hardware import instance_type
from neuronfleet.serving.api.traffic import Lengths
from neuronfleet.serving.api.variant import KvCache, Variant
from neuronfleet.serving.planner.advice import advise
from neuronfleet.serving.planner.ceiling import CeilingSource, ceiling
from neuronfleet.serving.planner.plan import Row, plan
from neuronfleet.serving.planner.timing import timing_for
from neuronfleet.serving.planner.verdict import crossover, verdict
from neuronfleet.serving.planner.walls import walls
from neuronfleet.serving.replica.timing import Basis

EXAMPLES = Path(__file__).parents[3] / "examples"


def example(name: str) -> ServingFleet:
    return fleet.load(EXAMPLES / name).fleets[0]


def rows_of(one: ServingFleet) -> dict[str, Row]:
    return {row.variant.name: row for row in plan(one, prices.newest())}


CLOSED, OPEN = example("llama-3.1-8b.yaml"), example("llama-3.1-8b-open.yaml")
HYBRID = example("qwen3.5-35b-a3b.yaml")
CLOSED_ROWS, OPEN_ROWS, HYBRID_ROWS = rows_of(CLOSED), rows_of(OPEN), rows_of(HYBRID)
INF2 = CLOSED.variants[0]


def said(one: ServingFleet, rows: dict[str, Row], name: str) -> str:
    return verdict(one, rows[name], list(rows.values()))


@pytest.mark.parametrize(
    ("variant", "dollars"), [("inf2", 0.507), ("mi300x", 0.209), ("h200", 0.279)]
)
def test_the_closed_example_gives_the_study_s_dollars(variant: str, dollars: float) -> None:
    row = CLOSED_ROWS[variant]

    assert row.usd_per_million_output_tokens == pytest.approx(dollars, abs=0.0005)
    assert row.basis is Basis.MEASURED


def test_the_closed_example_s_figures_are_the_measured_ones() -> None:
    row = CLOSED_ROWS["inf2"]

    assert row.figures.output_tok_per_s == 415.51
    assert (row.figures.ttft_p50_ms, row.figures.tpot_p50_ms) == (6409.369, 70.816)
    assert row.replicas == 1


def test_a_gpu_s_latencies_and_attainment_are_unknown() -> None:
    for name in ("mi300x", "h200", "l40s"):
        row = CLOSED_ROWS[name]

        assert row.fits
        assert (row.figures.ttft_p50_ms, row.figures.tpot_p50_ms, row.attainment) == (None,) * 3
    assert CLOSED_ROWS["l40s"].usd_per_million_output_tokens is None
    assert "roofline" in said(CLOSED, CLOSED_ROWS, "l40s")


def test_the_verdict_of_the_closed_example_is_cheaper_elsewhere_by_2_4() -> None:
    assert said(CLOSED, CLOSED_ROWS, "inf2").startswith("cheaper elsewhere by 2.4x (mi300x")
    assert "its latency unknown" in said(CLOSED, CLOSED_ROWS, "inf2")


def test_an_8b_at_4096_hits_the_compiler_s_prefill_limit() -> None:
    row = CLOSED_ROWS["inf2-4k"]

    assert not row.fits
    assert row.usd_per_hour is None
    assert "NCC_INLA001" in said(CLOSED, CLOSED_ROWS, "inf2-4k")


def test_short_prefill_buckets_keep_a_long_context_below_that_limit() -> None:
    split = replace(CLOSED.variants[2], prefill_buckets=(512, 1024, 2048))

    assert walls(CLOSED, split) == ()


def test_the_open_example_staffs_one_inf2_and_prices_it_at_its_load() -> None:
    row = OPEN_ROWS["inf2"]

    assert (row.replicas, row.nodes) == (1, 1)
    assert row.usd_per_million_output_tokens == pytest.approx(1.645, abs=0.001)
    assert row.attainment is not None
    assert row.attainment >= 0.95


def test_the_knee_of_one_replica_lies_between_the_measured_1_and_2_requests_a_second() -> None:
    knee = OPEN_ROWS["inf2"].knee

    assert knee is not None
    assert 1.0 < knee < 2.0


def test_the_open_example_names_from_where_a_gpu_is_cheaper_and_by_how_much() -> None:
    rows = list(OPEN_ROWS.values())
    crossing = crossover(OPEN, OPEN_ROWS["mi300x"], rows)
    knee = OPEN_ROWS["inf2"].knee

    assert crossing is not None
    assert knee is not None
    assert (crossing.winner, crossing.loser) == ("mi300x", "inf2")
    # Four inf2 at $0.7582 cost more than one MI300X at $2.59, three do not.
    # Behind one queue three take a little more than three times what one does.
    assert crossing.from_requests_per_second is not None
    assert 3 * knee <= crossing.from_requests_per_second <= 4.5 * knee
    assert crossing.ratio == pytest.approx(4 * 0.7582 / 2.59)
    assert not crossing.latencies_known
    assert "mi300x wins over inf2 by 1.17x" in said(OPEN, OPEN_ROWS, "mi300x")


def test_more_open_traffic_needs_more_replicas_and_attains_with_them() -> None:
    busy = replace(OPEN, traffic=replace(OPEN.traffic, requests_per_second=4.0))

    row = rows_of(busy)["inf2"]

    assert row.replicas == 3
    assert row.attains(0.95)


def test_the_35b_fits_one_trainium2_on_paper_with_its_roofline_by_batch() -> None:
    row = HYBRID_ROWS["trn2"]
    text = said(HYBRID, HYBRID_ROWS, "trn2")

    assert row.fits
    assert row.basis is Basis.ROOFLINE
    assert row.usd_per_million_output_tokens is None
    assert "69 GB of weights by count (67 as published) of 96 GiB" in text
    assert "1: 456" in text
    assert "8: 1112" in text


def test_what_a_generation_does_not_serve_is_a_wall_that_is_named() -> None:
    gemma = replace(built_in("llama-3.1-8b"), family="gemma3")
    one = replace(CLOSED, model=replace(CLOSED.model, architecture=gemma))
    trn2 = CLOSED.variants[3]

    assert walls(one, INF2) == ()
    assert "family gemma3 is not served by backend generation 2" in walls(one, trn2)[0]


def test_a_model_that_died_when_it_was_measured_is_blocked() -> None:
    one = replace(CLOSED, model=replace(CLOSED.model, architecture=built_in("qwen3-8b")))

    assert any("engine died" in wall for wall in walls(one, INF2))


def test_weights_that_do_not_fit_are_a_wall_with_both_sizes() -> None:
    one = replace(HYBRID, variants=(replace(INF2, max_num_seqs=1),))

    assert any("64.6 GiB of weights" in wall and "32 GiB" in wall for wall in walls(one, INF2))


def test_requests_longer_than_the_model_length_are_a_wall() -> None:
    long = Lengths(values=((2000, 1.0),))
    one = replace(CLOSED, traffic=replace(CLOSED.traffic, input_tokens=long))

    assert any("2000 + 1024 tokens exceed maxModelLen 2048" in wall for wall in walls(one, INF2))


def test_an_unknown_architecture_leaves_memory_and_time_unknown_not_zero() -> None:
    one = replace(CLOSED, model=replace(CLOSED.model, architecture=None))
    row = rows_of(one)["inf2"]

    assert (row.basis, row.usd_per_million_output_tokens, row.ceiling.memory_slots) == (None,) * 3
    assert said(one, {"inf2": row}, "inf2").startswith("unknown")


def test_an_unknown_price_is_unknown_and_never_free() -> None:
    one = replace(OPEN, regions=("eu-west-1",))
    row = rows_of(one)["inf2"]

    assert row.usd_per_hour is None
    assert "no on-demand price of inf2.xlarge is known" in said(one, {"inf2": row}, "inf2")


def test_the_plan_says_which_single_change_pays_most() -> None:
    advice = advise(OPEN, OPEN_ROWS["inf2"])

    assert advice is not None
    # Prompts of 512 run the 1024 bucket: strictly longer.
    assert advice.change == "buckets.prefill: add 640 (they run 1024)"
    assert advice.gain > 0.2


# Ceilings.


@pytest.mark.parametrize(
    ("seqs", "slots", "source"),
    [
        (32, 32, CeilingSource.CONFIGURED),
        (100, 63, CeilingSource.DEVICE_MEMORY),
    ],
)
def test_the_ceiling_is_the_smaller_of_settings_and_memory(
    seqs: int, slots: int, source: CeilingSource
) -> None:
    one = ceiling(CLOSED.model.architecture, replace(INF2, max_num_seqs=seqs))

    assert (one.slots, one.source, one.memory_slots) == (slots, source, 63)


def test_generation_1_s_log_only_echoes_its_settings_and_is_not_believed() -> None:
    one = ceiling(CLOSED.model.architecture, INF2, logged_kv_tokens=33 * 2048)

    assert (one.slots, one.source) == (32, CeilingSource.CONFIGURED)


def test_generation_2_s_log_is_a_measurement_and_precedes_arithmetic() -> None:
    trn2 = replace(CLOSED.variants[3], max_num_seqs=100)

    one = ceiling(CLOSED.model.architecture, trn2, logged_kv_tokens=50 * 2048)

    assert (one.slots, one.source) == (50, CeilingSource.SERVER_LOG)


def test_configured_kv_blocks_bound_the_ceiling() -> None:
    few = replace(INF2, kv_cache=KvCache(blocks=640, block_size=32))

    assert ceiling(CLOSED.model.architecture, few).slots == 10


def test_fp8_keys_and_values_take_half_the_room() -> None:
    fp8 = replace(INF2, kv_cache=KvCache(dtype="fp8"), max_num_seqs=500)

    assert ceiling(CLOSED.model.architecture, fp8).slots == 126


# Timing models.


@pytest.mark.parametrize(
    ("model", "instance", "basis"),
    [
        ("llama-3.1-8b", "inf2.xlarge", Basis.MEASURED),
        ("llama-3.1-8b", "inf2.8xlarge", Basis.MEASURED),
        ("llama-3.1-8b", "trn1.2xlarge", Basis.SCALED),
        ("qwen3-8b", "inf2.xlarge", Basis.SCALED),
        ("qwen3.5-35b-a3b", "trn2.3xlarge", Basis.ROOFLINE),
        ("llama-3.1-8b", "h200", Basis.ROOFLINE),
    ],
)
def test_each_variant_says_how_its_timing_came_about(
    model: str, instance: str, basis: Basis
) -> None:
    hardware = instance_type(instance)
    variant = Variant(
        name="v",
        instance=hardware,
        generation=1 if hardware.is_neuron else None,
        tensor_parallel=2 if hardware.is_neuron else 1,
        max_model_len=2048,
        max_num_seqs=32,
    )

    timing = timing_for(built_in(model), variant)

    assert timing is not None
    assert timing.basis is basis


def test_a_step_pays_the_slots_that_its_graph_is_compiled_for() -> None:
    eight = timing_for(built_in("llama-3.1-8b"), replace(INF2, max_num_seqs=8))
    full = timing_for(built_in("llama-3.1-8b"), INF2)

    assert eight is not None
    assert full is not None
    # Weights of 15.0 GB and 256 MiB a slot: 17.2 of 23.6 GB.
    assert eight.decode.ms[-1] / full.decode.ms[-1] == pytest.approx(17.16 / 23.6, abs=0.002)
    assert eight.basis is Basis.SCALED


def test_a_plan_keeps_within_the_user_s_bounds_and_says_when_they_bind() -> None:
    few = replace(
        OPEN,
        traffic=replace(OPEN.traffic, requests_per_second=10.0),
        scaling=replace(OPEN.bounds, max_replicas=2),
    )
    rows = rows_of(few)

    assert rows["inf2"].replicas == 2
    assert "misses the objective with the 2 replicas allowed" in said(few, rows, "inf2")


def test_a_large_load_is_planned_in_seconds() -> None:
    large = replace(
        OPEN,
        variants=OPEN.variants[:1],
        traffic=replace(OPEN.traffic, requests_per_second=1000.0),
        scaling=replace(OPEN.bounds, max_replicas=10_000),
    )

    row = rows_of(large)["inf2"]

    assert row.replicas is not None
    # 1.84 a replica is where the median TPOT alone meets its objective.
    assert 1000 / 1.84 < row.replicas < 1200
    assert row.attains(0.95)


def test_only_a_run_at_this_very_load_is_called_measured() -> None:
    assert CLOSED_ROWS["inf2"].measured
    assert CLOSED_ROWS["mi300x"].measured
    assert not OPEN_ROWS["inf2"].measured
    assert not OPEN_ROWS["mi300x"].measured
    assert OPEN_ROWS["mi300x"].basis is Basis.SCALED
    assert HYBRID_ROWS["trn2"].attainment is None
