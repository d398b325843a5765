"""The status as it is stored: what is unknown is absent, and any older form of it reads."""

import json
from datetime import UTC, datetime
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuronfleet.serving.api import crd
from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.api.status import (
    ConditionType,
    DecisionInputs,
    DecisionRecord,
    FleetStatus,
    RolloutStatus,
    StatusCondition,
    VariantStatus,
)

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
SCHEMA = crd.object_schema()["properties"]["status"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)

count = st.none() | st.integers(0, 10_000)
number = st.none() | st.floats(0, 1e6)
words = st.none() | st.text(min_size=1, max_size=12)
moments = st.datetimes(
    min_value=datetime(2000, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC)
)
conditions = st.builds(
    StatusCondition,
    type=st.sampled_from([str(one) for one in ConditionType]),
    status=st.sampled_from(["True", "False", "Unknown"]),
    reason=words,
    message=words,
    last_transition_time=st.none() | moments,
    observed_generation=count,
)
decisions = st.builds(
    DecisionRecord,
    at=moments,
    reason=st.text(min_size=1, max_size=9),
    desired=st.dictionaries(st.text(min_size=1, max_size=9), st.integers(0, 99), max_size=3),
    inputs=st.none()
    | st.builds(
        DecisionInputs,
        load=number,
        slots_needed=number,
        arrivals_per_second=number,
        rate_per_replica=number,
        current=count,
        sample_age_seconds=number,
        origin=words,
        window_seconds=number,
    ),
)
variants = st.builds(
    VariantStatus,
    name=st.text(min_size=1, max_size=9),
    serving=count,
    usd_per_hour=number,
    boot_p90_seconds=number,
    boots=st.lists(st.floats(0, 1e4), max_size=20).map(tuple),
    limited=words,
)
statuses = st.builds(
    FleetStatus,
    observed_generation=count,
    replicas=count,
    selector=words,
    desired=count,
    load=number,
    usd_per_hour=number,
    conditions=st.lists(conditions, max_size=3).map(tuple),
    last_decision=st.none() | decisions,
    decisions=st.lists(decisions, max_size=3).map(tuple),
    variants=st.lists(variants, max_size=3).map(tuple),
    rollout=st.none()
    | st.builds(RolloutStatus, state=st.just("Warming"), from_=words, to=words, started_at=moments),
)


@given(statuses)
def test_a_status_reads_back_as_it_was_and_is_what_the_schema_says(status: FleetStatus) -> None:
    stored = json.loads(json.dumps(status.to_dict()))

    assert FleetStatus.from_dict(stored) == status
    jsonschema.Draft202012Validator(SCHEMA).validate(stored)


def test_what_is_unknown_is_left_out_and_a_measured_zero_is_not() -> None:
    status = FleetStatus(desired=0, serving=None, load=0.0)

    assert status.to_dict() == {"desired": 0, "load": 0.0}


def test_names_are_those_of_kubernetes() -> None:
    record = DecisionRecord(at=NOW, reason="Steady", desired={"inf2": 2})
    rollout = RolloutStatus(state="Warming", from_="0a", to="0b", started_at=NOW)
    one = VariantStatus(name="inf2", usd_per_hour=0.7582, boot_p99_seconds=610.0, boots=(548.0,))

    assert record.to_dict() == {
        "at": "2026-11-30T12:00:00Z",
        "reason": "Steady",
        "desired": {"inf2": 2},
    }
    assert rollout.to_dict()["from"] == "0a"
    assert rollout.to_dict()["startedAt"] == "2026-11-30T12:00:00Z"
    assert set(one.to_dict()) == {"name", "usdPerHour", "bootP99Seconds", "boots"}


def test_an_older_or_newer_status_reads_as_far_as_it_is_known() -> None:
    stored: dict[str, Any] = {
        "desired": "two",
        "serving": 1,
        "mood": "good",
        "load": 3,
        "conditions": [
            {"type": "Ready", "status": "True", "colour": "green"},
            {"type": "Ready"},
            "Ready",
        ],
        "lastDecision": {"reason": "Steady"},
        "decisions": [{"at": "yesterday", "reason": "Steady"}],
        "variants": [{"name": "inf2", "boots": [1, "x", True], "ceiling": 32}, {"ceiling": 1}],
    }

    assert FleetStatus.from_dict(stored) == FleetStatus(
        serving=1,
        load=3.0,
        conditions=(StatusCondition(type="Ready", status="True"),),
        variants=(VariantStatus(name="inf2", boots=(1.0,), ceiling=32),),
    )


@given(st.dictionaries(st.sampled_from(sorted(SCHEMA["properties"])), JSON))
def test_no_stored_status_is_unreadable(stored: dict[str, Any]) -> None:
    assert isinstance(FleetStatus.from_dict(stored), FleetStatus)


def test_a_part_that_lacks_what_it_is_known_by_is_named() -> None:
    with pytest.raises(SpecError, match=r"VariantStatus = .*, must have name"):
        VariantStatus.from_dict({"ceiling": 3})


def test_the_condition_types_are_those_that_the_schema_takes() -> None:
    types = SCHEMA["properties"]["conditions"]["items"]["properties"]["type"]["enum"]

    assert types == [str(one) for one in ConditionType]
    assert SCHEMA["properties"]["decisions"]["maxItems"] == 10
    assert SCHEMA["properties"]["variants"]["items"]["properties"]["boots"]["maxItems"] == 20
