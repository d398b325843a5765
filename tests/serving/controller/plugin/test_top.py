import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuronfleet.serving.controller import records
from neuronfleet.serving.controller.plugin.top import view
from neuronfleet.serving.controller.plugin.top.metrics import Measured
from neuronfleet.serving.controller.plugin.top.rows import (
    Top,
    dollars_per_million,
    phase_of,
    price_of,
    top_of,
)
from neuronfleet.serving.planner.observation import Phase
from tests.schema import check
from tests.serving.controller.plugin.objects import (
    NOW,
    Body,
    fleet,
    pod,
    printed,
    reading,
    status,
    waiting,
)

KEY = "serving.f"
ONE, TWO = "f-inf2-aaaaaaaa-7d9f8b6c5d-x2k4q", "f-inf2-aaaaaaaa-7d9f8b6c5d-b7c9d"


def measured(**changes: Any) -> Measured:
    plain: dict[str, Any] = {
        "readings": {KEY: reading(3.0, **{ONE: 4.0, TWO: 2.0})},
        "tokens_per_s": {(KEY, ONE): 200.0, (KEY, TWO): 100.0},
        "time_scales": {},
    }
    return Measured(**(plain | changes))


def top(found: Measured | None = None, pods: list[Body] | None = None, **spec: Any) -> Top:
    pods = [pod(ONE), pod(TWO)] if pods is None else pods
    return top_of(fleet(**spec), pods, measured() if found is None else found, NOW)


def text(found: Top, width: int = 80) -> str:
    return printed(lambda out: view.show(found, out), width)


def test_dollars_per_million_are_the_price_over_the_tokens_of_an_hour() -> None:
    # 0.7582 / (200 * 3600) * 1e6
    assert dollars_per_million(0.7582, 200.0) == pytest.approx(1.0531, abs=1e-4)


@given(
    st.one_of(st.none(), st.floats(0, 1e4)),
    st.one_of(st.none(), st.just(0.0), st.floats(1e-3, 1e6)),
)
def test_dollars_are_known_only_where_price_and_tokens_are(
    price: float | None, tokens: float | None
) -> None:
    known = price is not None and tokens is not None and tokens > 0

    assert (dollars_per_million(price, tokens) is not None) == known


def test_a_replica_carries_its_own_load_rate_and_price() -> None:
    row = next(one for one in top().rows if one.replica == ONE)

    assert (row.held, row.ceiling, row.tokens_per_s) == (4.0, 4, 200.0)
    assert row.usd_per_hour == pytest.approx(1.5164 / 2)
    assert row.figures == "measured"


def test_the_fleet_pays_for_replicas_that_make_nothing() -> None:
    booting = pod("f-inf2-aaaaaaaa-7d9f8b6c5d-zzzzz", ready=False)

    found = top(pods=[pod(ONE), pod(TWO), booting])

    assert found.tokens_per_s == 300.0
    assert found.usd_per_hour == pytest.approx(3 * 1.5164 / 2)
    assert found.load == 9.0


def test_a_replica_that_no_node_carries_costs_nothing_yet() -> None:
    found = top(pods=[pod(ONE), pod("p", ready=False, node=None)])

    assert [row.usd_per_hour for row in found.rows if row.replica == "p"] == [0.0]
    assert "none" in text(found, width=200)


def test_an_unknown_rate_makes_the_total_unknown() -> None:
    found = top(measured(tokens_per_s={(KEY, ONE): 200.0}))

    assert (found.tokens_per_s, found.usd_per_million) == (None, None)
    assert "unknown" in text(found).splitlines()[-1]


def test_a_price_that_the_status_does_not_know_is_unknown() -> None:
    one = status().variants[0]

    assert price_of(replace(one, usd_per_hour=None)) is None
    assert price_of(replace(one, desired=0, usd_per_hour=0.0)) is None
    assert price_of(None) is None


def test_no_tokens_are_not_an_unknown_rate() -> None:
    shown = text(top(measured(tokens_per_s={(KEY, ONE): 0.0, (KEY, TWO): 100.0})))

    assert "no tokens" in next(line for line in shown.splitlines() if "x2k4q" in line)


def test_emulated_figures_say_so_and_count_emulated_seconds() -> None:
    found = top(measured(time_scales={(KEY, ONE): 20.0, (KEY, TWO): 20.0}))

    assert found.tokens_per_s == 300.0 / 20
    assert [line.split()[-1] for line in text(found).splitlines()[2:]] == ["emulated"] * 3


def test_a_fleet_that_is_partly_emulated_names_both() -> None:
    found = top(measured(time_scales={(KEY, ONE): 1.0}))

    assert found.figures == "emulated and measured"


def test_a_sample_older_than_the_fleets_limit_is_unknown() -> None:
    old = measured(readings={KEY: reading(3.0, 61.0, **{ONE: 4.0})})

    found = top(old)

    assert (found.stale, found.load, found.rows[0].held) == (True, None, None)
    assert "load unknown (last sample 61s old: stale)" in text(found)
    assert not top(old, metrics={"maxAge": "2m"}).stale


def test_a_fleet_that_prometheus_does_not_know_has_no_load() -> None:
    assert "load unknown (no sample), 8 slots" in text(top(Measured()))


@pytest.mark.parametrize(
    ("body", "phase"),
    [
        (pod(), Phase.SERVING),
        (pod(ready=False), Phase.BOOTING),
        (waiting("CrashLoopBackOff"), Phase.FAILED),
        (waiting("ImagePullBackOff"), Phase.FAILED),
        (waiting("ContainerCreating"), Phase.BOOTING),
    ],
)
def test_a_pod_is_in_the_phase_that_its_status_tells(body: Body, phase: Phase) -> None:
    assert phase_of(records.pod(body)) is phase


def test_a_pod_that_is_going_drains() -> None:
    body = pod()
    body["metadata"]["deletionTimestamp"] = "2027-01-01T00:00:00Z"

    assert phase_of(records.pod(body)) is Phase.DRAINING


def test_80_columns_shorten_names_and_lose_no_figure() -> None:
    found = top(measured(tokens_per_s={}))

    shown = text(found)

    assert max(map(len, shown.splitlines())) <= 80
    assert "x2k4q" in shown
    assert "$/1M@LOAD" in shown
    assert "…" not in shown


def test_80_columns_hold_a_long_variant_too() -> None:
    rows = [replace(one, variant="trn2-capacity-block-b", usd_per_hour=43.21) for one in top().rows]

    shown = text(replace(top(), rows=tuple(rows)))

    assert max(map(len, shown.splitlines())) <= 80
    assert "43.21" in shown
    assert "…" not in shown


def test_a_wide_place_shows_names_in_full() -> None:
    shown = text(top(), width=10_000)

    assert ONE in shown
    assert "ip-10-0-1-2.us-east-2.compute.internal" in shown


def test_a_fleet_without_replicas_says_so() -> None:
    assert "no replicas" in text(top(pods=[]))


@pytest.mark.parametrize("found", [measured(), Measured()], ids=["known", "unknown"])
def test_the_json_is_what_its_schema_says(found: Measured) -> None:
    documents = [view.document(top(found, pods=[pod(ONE), pod("p", ready=False, node=None)]))]

    check(json.loads(json.dumps(documents)), "kubectl-top")
    assert documents[0]["at_load"] == documents[0]["load"]
