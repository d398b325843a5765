"""The decision that scales a fleet: its laws as properties, its reasons as cases."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuronfleet.serving.api.fleet import Forecast, Scaling
from neuronfleet.serving.planner.decide import Decision, Reason, StaffingSpec, decide
from neuronfleet.serving.planner.moves import moves
from neuronfleet.serving.planner.observation import (
    Observation,
    Origin,
    Phase,
    ReplicaSeen,
    Sample,
)
from neuronfleet.serving.planner.staffing import CapacityTable, StaffedVariant

BOOT = 100.0
NOW = 10_000.0
TABLE = CapacityTable(
    prompt_tokens=(512, 1024), output_tokens=(128, 256), rates=((1.2, 0.8), (0.6, 0.4))
)
CHEAP = StaffedVariant(name="cheap", ceiling=8, boot_p90_s=BOOT, table=TABLE, usd_per_hour=1.0)
DEAR = StaffedVariant(name="dear", ceiling=8, boot_p90_s=BOOT, table=TABLE, usd_per_hour=3.0)


def spec(*variants: StaffedVariant, **bounds: object) -> StaffingSpec:
    given_bounds = {"min_replicas": 1, "max_replicas": 20, "forecast": Forecast.NONE} | bounds
    return StaffingSpec(
        fleet="f",
        bounds=Scaling(**given_bounds),  # type: ignore[arg-type]
        variants=variants or (CHEAP,),
        metrics_max_age_s=30.0,
    )


def replicas(serving: int = 0, booting: int = 0, variant: str = "cheap") -> list[ReplicaSeen]:
    phases = [Phase.SERVING] * serving + [Phase.BOOTING] * booting
    return [
        ReplicaSeen(name=f"{variant}-{at}", variant=variant, phase=phase, since_s=100.0 * at)
        for at, phase in enumerate(phases)
    ]


def sample(
    at: float,
    load: float,
    seen: list[ReplicaSeen],
    *,
    origin: Origin = Origin.METRICS,
    rate: float | None = None,
    refused: float = 0.0,
) -> Sample:
    serving = [one.name for one in seen if one.phase is Phase.SERVING]
    each = load / len(serving) if serving else 0.0
    return Sample(
        at_s=at,
        origin=origin,
        in_flight=dict.fromkeys(serving, each),
        queued=0.0 if serving else load,
        refused_per_s=refused,
        arrivals_per_s=rate,
        prompt_tokens=512.0,
        output_tokens=128.0,
        seconds_per_request=8.0,
    )


def observe(
    load: float,
    seen: list[ReplicaSeen],
    *,
    rate: float | None = None,
    span: float = 400.0,
    last: float = NOW,
    origin: Origin = Origin.METRICS,
    watched_since: float = 0.0,
) -> Observation:
    times = [last - span + 10.0 * step for step in range(int(span / 10) + 1)]
    return Observation(
        replicas=tuple(seen),
        samples=tuple(sample(at, load, seen, rate=rate, origin=origin) for at in times),
        watched_since_s=watched_since,
    )


def total(given_spec: StaffingSpec, seen: Observation, now: float = NOW) -> int:
    return decide(given_spec, seen, now).total


def test_one_request_over_what_the_slots_hold_needs_a_second_replica() -> None:
    # 4.5 + 1.65 * sqrt(4.5) = 8.0 slots; 4.6 needs 8.1 of the 8.
    assert total(spec(), observe(4.4, replicas(1))) == 1
    assert total(spec(), observe(4.6, replicas(1))) == 2


def test_long_prompts_need_more_replicas_than_their_slots_do() -> None:
    decision = decide(spec(), observe(2.0, replicas(1), rate=3.0), NOW)

    assert (decision.total, decision.reason) == (3, Reason.PREFILL)
    assert decision.inputs.rate_per_replica == 1.2


def test_a_decision_carries_its_reason_and_its_inputs() -> None:
    decision = decide(spec(), observe(20.0, replicas(1), rate=1.0), NOW)

    assert decision.reason is Reason.SLOTS
    assert decision.inputs.load == 20.0
    assert decision.inputs.slots_needed == pytest.approx(27.4, abs=0.05)
    assert (decision.inputs.current, decision.inputs.sample_age_s) == (1, 0.0)


def test_a_fleet_shrinks_once_it_needed_less_for_a_whole_boot_time() -> None:
    decision = decide(spec(), observe(1.0, replicas(4)), NOW)

    assert (decision.total, decision.reason) == (1, Reason.LESS_LOAD)


def test_a_peak_within_the_window_still_counts_when_shrinking() -> None:
    seen = observe(1.0, replicas(4))
    peak = sample(NOW - 60, 10.0, replicas(4))
    spiked = replace(seen, samples=tuple(sorted((*seen.samples, peak), key=lambda s: s.at_s)))

    # 10 + 1.65 * sqrt(10) = 15.2 slots.
    assert total(spec(), spiked) == 2


def test_refused_requests_are_load_that_found_no_place() -> None:
    nobody: list[ReplicaSeen] = []
    turned_away = Observation(
        replicas=(),
        samples=(sample(NOW, 0.0, nobody, refused=2.0),),
        watched_since_s=0.0,
    )

    # 2 a second for 8 s each are 16 sequences.
    assert total(spec(min_replicas=0), turned_away) == 3


def test_standby_replicas_stand_beside_what_the_law_asks() -> None:
    assert total(spec(standby=2), observe(4.0, replicas(1))) == 3


def test_an_idle_fleet_goes_to_zero_after_idle_after_and_not_before() -> None:
    bounds = {"min_replicas": 0, "idle_after_s": 300.0}

    assert decide(spec(**bounds), observe(0.0, replicas(1)), NOW).reason is Reason.IDLE
    assert total(spec(**bounds), observe(0.0, replicas(1), span=250.0)) == 1
    assert total(spec(min_replicas=0), observe(0.0, replicas(1))) == 1


def test_a_fleet_at_zero_stays_there_until_something_comes() -> None:
    assert total(spec(min_replicas=0), observe(0.0, [])) == 0
    assert total(spec(min_replicas=0), observe(1.0, [])) == 1


def test_growth_follows_a_trend_over_the_boot_time_that_it_has_to_bridge() -> None:
    seen = replicas(1)
    ramp = tuple(sample(NOW - 100 + at, at / 25, seen) for at in range(0, 101, 10))
    observation = Observation(replicas=tuple(seen), samples=ramp, watched_since_s=0.0)

    assert total(spec(forecast=Forecast.NONE), observation) == 1
    assert total(spec(forecast=Forecast.TREND), observation) == 2


def test_noise_about_a_constant_load_is_no_trend() -> None:
    seen = replicas(1)
    # 1.4 more in the later half: within the standard deviation of a load of 3.
    noisy = tuple(sample(NOW - 100 + at, 3.0 if at < 50 else 4.4, seen) for at in range(0, 101, 10))
    observation = Observation(replicas=tuple(seen), samples=noisy, watched_since_s=0.0)

    assert total(spec(forecast=Forecast.TREND), observation) == 1


def test_what_a_trend_started_the_next_decision_does_not_cancel() -> None:
    seen = replicas(1)
    ramp = [sample(NOW - 200 + at, at / 25, seen) for at in range(0, 101, 10)]
    flat = [sample(NOW - 90 + at, 4.0, seen) for at in range(0, 91, 10)]
    grown = replicas(1, booting=1)
    observation = Observation(replicas=tuple(grown), samples=(*ramp, *flat), watched_since_s=0.0)

    assert total(spec(forecast=Forecast.TREND), observation) == 2


def test_the_cheapest_variant_grows_and_the_dearest_shrinks() -> None:
    grown = decide(spec(CHEAP, DEAR), observe(20.0, replicas(1, variant="dear")), NOW)
    mixed = replicas(2) + replicas(2, variant="dear")
    shrunk = decide(spec(CHEAP, DEAR), observe(2.0, mixed), NOW)

    assert grown.desired == {"cheap": 3, "dear": 1}
    assert shrunk.desired == {"cheap": 1, "dear": 0}


def test_a_variant_without_capacity_passes_growth_on() -> None:
    limited = replace(CHEAP, most=1)

    assert decide(spec(limited, DEAR), observe(20.0, replicas(1)), NOW).desired == {
        "cheap": 1,
        "dear": 3,
    }


def test_where_no_variant_has_capacity_the_reason_says_so() -> None:
    decision = decide(spec(replace(CHEAP, most=2)), observe(50.0, replicas(1)), NOW)

    assert (decision.total, decision.reason) == (2, Reason.NO_CAPACITY)


# What is unknown forbids shrinking and allows growing.

UNKNOWN_WAYS = {
    "no sample at all": Observation(replicas=tuple(replicas(4)), samples=(), watched_since_s=0.0),
    "stale metrics": observe(1.0, replicas(4), last=NOW - 31),
    "only the gateway's own counters": observe(1.0, replicas(4), origin=Origin.GATEWAY),
    "a restart, so a short memory": observe(1.0, replicas(4), watched_since=NOW - 50),
    "a live replica without a reading": replace(
        observe(1.0, replicas(3)), replicas=tuple(replicas(4))
    ),
    "a hole in the window": replace(
        observe(1.0, replicas(4)),
        samples=tuple(
            s for s in observe(1.0, replicas(4)).samples if not NOW - 80 < s.at_s < NOW - 20
        ),
    ),
}


@pytest.mark.parametrize("way", UNKNOWN_WAYS)
def test_a_fleet_does_not_shrink_on(way: str) -> None:
    decision = decide(spec(), UNKNOWN_WAYS[way], NOW)

    assert decision.total == 4
    assert decision.reason in (Reason.UNKNOWN, Reason.WATCHING)


def test_a_fleet_grows_on_the_gateway_s_counters_while_metrics_are_gone() -> None:
    assert total(spec(), observe(30.0, replicas(1), origin=Origin.GATEWAY)) == 5


def test_readings_of_a_deleted_replica_count_for_nothing() -> None:
    seen = observe(1.0, replicas(1))
    haunted = tuple(replace(s, in_flight={**s.in_flight, "ghost": 50.0}) for s in seen.samples)

    assert total(spec(), replace(seen, samples=haunted, gone={"ghost": 0.0})) == 1


def test_the_maximum_precedes_the_unknown() -> None:
    blind = Observation(replicas=tuple(replicas(6)), samples=(), watched_since_s=0.0)

    decision = decide(spec(max_replicas=4), blind, NOW)

    assert (decision.total, decision.reason) == (4, Reason.ABOVE_MAXIMUM)


# Laws.

LOADS = st.floats(0, 400)
COUNTS = st.integers(0, 12)


@st.composite
def observations(draw: st.DrawFn) -> Observation:
    seen = replicas(draw(COUNTS), draw(COUNTS))
    ways = st.sampled_from(list(Origin))
    times = sorted(draw(st.lists(st.floats(NOW - 500, NOW + 50), max_size=12)))
    samples = tuple(
        sample(at, draw(LOADS), seen, origin=draw(ways), rate=draw(st.none() | st.floats(0, 50)))
        for at in times
    )
    return Observation(
        replicas=tuple(seen), samples=samples, watched_since_s=draw(st.floats(0, NOW))
    )


@settings(max_examples=200)
@given(seen=observations(), low=st.integers(0, 5), extra=st.integers(0, 10))
def test_the_user_s_bounds_hold_whatever_is_seen(seen: Observation, low: int, extra: int) -> None:
    high = max(1, low + extra)

    assert low <= total(spec(min_replicas=low, max_replicas=high), seen) <= high


@settings(max_examples=200)
@given(
    load=LOADS,
    more=st.floats(0, 100),
    serving=COUNTS,
    booting=COUNTS,
    rate=st.floats(0, 20),
    more_rate=st.floats(0, 5),
    forecast=st.sampled_from(list(Forecast)),
)
def test_more_load_never_asks_for_fewer_replicas(
    load: float,
    more: float,
    serving: int,
    booting: int,
    rate: float,
    more_rate: float,
    forecast: Forecast,
) -> None:
    seen = replicas(serving, booting)
    given_spec = spec(forecast=forecast, max_replicas=1000)

    less = total(given_spec, observe(load, seen, rate=rate))

    assert total(given_spec, observe(load + more, seen, rate=rate + more_rate)) >= less


@settings(max_examples=200)
@given(seen=observations())
def test_nothing_shrinks_while_metrics_are_unknown(seen: Observation) -> None:
    fresh = [s for s in seen.samples if s.origin is Origin.METRICS and NOW - 30 <= s.at_s <= NOW]
    have = len(seen.names(Phase.SERVING, Phase.BOOTING))

    if not fresh:
        assert total(spec(min_replicas=0, max_replicas=100), seen) >= have


@settings(max_examples=100)
@given(load=LOADS, serving=COUNTS, rate=st.floats(0, 20))
def test_a_constant_load_is_answered_once_and_then_left_alone(
    load: float, serving: int, rate: float
) -> None:
    given_spec, seen, sizes = spec(max_replicas=1000), replicas(serving), []
    for _ in range(4):
        sizes.append(total(given_spec, observe(load, seen, rate=rate)))
        seen = replicas(sizes[-1])

    assert len(set(sizes)) == 1


@settings(max_examples=200)
@given(
    cheap=st.tuples(COUNTS, COUNTS),
    dear=st.tuples(COUNTS, COUNTS),
    load=LOADS,
    high=st.integers(1, 30),
)
def test_no_serving_replica_is_drained_while_one_of_any_variant_boots(
    cheap: tuple[int, int], dear: tuple[int, int], load: float, high: int
) -> None:
    seen = observe(load, replicas(*cheap) + replicas(*dear, variant="dear"))

    decision = decide(spec(CHEAP, DEAR, max_replicas=high), seen, NOW)
    acts = moves(decision.desired, seen, {})

    if acts.drain:
        assert len(acts.cancel) == cheap[1] + dear[1]


def test_what_takes_no_request_is_not_grown_where_prefill_binds() -> None:
    useless = replace(CHEAP, table=replace(TABLE, rates=((0.0, 0.0), (0.0, 0.0))))

    decision = decide(spec(useless, DEAR), observe(2.0, replicas(1), rate=3.0), NOW)

    assert decision.desired == {"cheap": 1, "dear": 3}


def test_lengths_beyond_the_table_take_their_share_less() -> None:
    assert TABLE.rate(1024, 256) == 0.4
    assert TABLE.rate(2048, 512) == pytest.approx(0.1)


@settings(max_examples=100)
@given(serving=COUNTS, booting=COUNTS, desired=st.integers(0, 24))
def test_booting_replicas_are_cancelled_before_a_serving_one_is_drained(
    serving: int, booting: int, desired: int
) -> None:
    observation = Observation(
        replicas=tuple(replicas(serving, booting)), samples=(), watched_since_s=0.0
    )

    acts = moves({"cheap": desired}, observation, {})

    surplus = max(0, serving + booting - desired)
    assert len(acts.cancel) == min(surplus, booting)
    assert len(acts.drain) == surplus - len(acts.cancel)
    assert acts.start.get("cheap", 0) == max(0, desired - serving - booting)
    assert not set(acts.drain) & set(observation.names(Phase.BOOTING))


def test_the_emptiest_replica_is_drained_and_one_of_unknown_load_last() -> None:
    observation = Observation(replicas=tuple(replicas(3)), samples=(), watched_since_s=0.0)

    acts = moves({"cheap": 1}, observation, {"cheap-0": 5.0, "cheap-2": 1.0})

    assert acts.drain == ("cheap-2", "cheap-0")


def test_a_decision_s_total_is_over_all_variants() -> None:
    one = decide(spec(CHEAP, DEAR), observe(1.0, replicas(2) + replicas(1, variant="dear")), NOW)

    assert isinstance(one, Decision)
    assert one.total == sum(one.desired.values())
