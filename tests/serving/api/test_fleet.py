"""One parser, every problem at once, each with its path, value and allowed range."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from neuronfleet.serving.api import fleet
from neuronfleet.serving.api.fleet import Forecast, Mode, Scaling
from neuronfleet.serving.api.model import SourceKind
from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.api.variant import CapacityType

EXAMPLES = Path(__file__).parents[3] / "examples"


def document(**spec: object) -> dict[str, object]:
    base: dict[str, object] = {
        "model": {"name": "m", "source": {"huggingFace": "meta-llama/Llama-3.1-8B-Instruct"}},
        "variants": [
            {
                "name": "inf2",
                "instanceType": "inf2.xlarge",
                "tensorParallelDegree": 2,
                "maxModelLen": 2048,
                "maxNumSeqs": 32,
            }
        ],
        "objective": {"ttftMs": 3000, "tpotMs": 80},
        "traffic": {
            "open": {"requestsPerSecond": 1},
            "inputTokens": 512,
            "outputTokens": 128,
        },
    }
    return {
        "apiVersion": "neuronfleet.dev/v1alpha1",
        "kind": "ServingFleet",
        "metadata": {"name": "f"},
        "spec": base | spec,
    }


def parse(*documents: object) -> fleet.Manifest:
    return fleet.parse(yaml.safe_dump_all(documents))


def problems(*documents: object) -> list[str]:
    with pytest.raises(SpecError) as raised:
        parse(*documents)
    return [str(problem) for problem in raised.value.problems]


def variant(**fields: object) -> dict[str, object]:
    given = document()["spec"]["variants"][0] | fields  # type: ignore[index]
    return document(variants=[{k: v for k, v in given.items() if v is not None}])


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_is_valid(path: Path) -> None:
    assert fleet.load(path, other_kinds=("LocalRun",)).fleets


def test_defaults_are_the_documented_ones() -> None:
    one = parse(document()).fleets[0]

    assert one.mode is Mode.ACTIVE
    assert one.bounds == Scaling(min_replicas=1, max_replicas=1)
    assert (one.drain_s, one.queue_s, one.metrics_max_age_s) == (600, 60, 60)
    assert one.objective.attainment == 0.95
    assert one.variants[0].capacity_type is CapacityType.ON_DEMAND
    assert one.variants[0].prompt_buckets == (128, 256, 512, 1024, 2048)
    assert one.model.architecture is not None
    assert one.model.architecture.name == "llama-3.1-8b"


def test_every_field_of_a_variant_is_read() -> None:
    one = (
        parse(
            variant(
                instanceType="trn2.48xlarge",
                capacityType="capacity-block",
                zones=["use2-az3"],
                reservation={"id": "cr-1", "endsAt": "2026-12-01T11:30:00Z"},
                backendGeneration=2,
                image="neuron@sha256:0",
                tensorParallelDegree=4,
                logicalCoreSize=2,
                weightDtype="fp8",
                kvCache={"dtype": "fp8", "blocks": 2048, "blockSize": 32},
                buckets={"prefill": [512, 1024], "decode": [2048]},
                speculation={"method": "eagle3", "draftModel": "d", "tokens": 4},
                extraArgs=["--seed", "0"],
                env={"A": "1"},
                podTemplate={"spec": {"priorityClassName": "high"}},
            )
        )
        .fleets[0]
        .variants[0]
    )

    assert one.reservation is not None
    assert one.reservation.ends_at is not None
    assert one.kv_cache.tokens == 65_536
    assert one.speculation is not None
    assert one.speculation.tokens == 4
    assert one.replicas_per_node == 16
    assert one.env == (("A", "1"),)
    assert one.pod_template == {"spec": {"priorityClassName": "high"}}


def test_all_problems_are_reported_at_once_with_path_value_and_range() -> None:
    found = problems(
        document(
            variants=[{"instanceType": "inf2.xlarge", "maxModelLen": 2048, "maxNumSeqs": 0}],
            objective={"ttftMs": 3000, "tpotMs": -1},
        )
    )

    assert "spec.variants[0].maxNumSeqs = 0, must be in [1, 4096]" in found
    assert "spec.objective.tpotMs = -1, must be in [0.1, 60000]" in found


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"scalling": {}}, "did you mean scaling?"),
        ({"replicas": 2, "scaling": {"maxReplicas": 3}}, "must not be given beside scaling"),
        ({"scaling": {"minReplicas": 5, "maxReplicas": 3}}, "must be in [0, maxReplicas = 3]"),
        ({"variants": []}, "must hold at least one variant"),
        ({"mode": "active"}, "must be one of Active, Advisory"),
        ({"metrics": {"maxAge": "soon"}}, "must be a duration in"),
        ({"model": {"name": "m", "source": {}}}, "must have exactly one of huggingFace"),
        (
            {"model": {"name": "m", "source": {"path": "/m"}, "architecture": "gpt-9"}},
            "must be one of llama-3.1-8b",
        ),
        ({"traffic": {"inputTokens": 1, "outputTokens": 1}}, "must have exactly one of open"),
        ({"objective": "fast"}, "must be a mapping of fields"),
        (
            {
                "traffic": {
                    "closed": {"concurrency": 1},
                    "inputTokens": 1,
                    "outputTokens": 1,
                    "outputLengths": [{"tokens": 1, "share": 0.5}],
                }
            },
            "spec.traffic.outputLengths = shares of 0.5, must sum to 1",
        ),
    ],
)
def test_a_wrong_spec_says_what_would_do(spec: dict[str, object], expected: str) -> None:
    assert any(expected in line for line in problems(document(**spec)))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"instanceType": "inf2.xlrge"}, "did you mean inf2.xlarge?"),
        ({"backendGeneration": 2}, "must be 1 on inf2.xlarge"),
        ({"instanceType": "h200", "backendGeneration": 1}, "must be absent on h200"),
        ({"tensorParallelDegree": 4}, "must be in [1, 2]"),
        ({"buckets": {"prefill": [512, 4096]}}, "must not exceed maxModelLen = 2048"),
        ({"buckets": {"prefill": [512, 256]}}, "must be ascending"),
        ({"capacityType": "cheap"}, "must be one of on-demand, spot"),
        ({"reservation": {"id": "r", "endsAt": "tomorrow"}}, "must be a time with zone"),
        ({"maxNumSeq": 3}, "did you mean maxNumSeqs?"),
        ({"maxModelLen": True}, "must be in [1, 1048576]"),
        ({"maxNumSeqs": None}, "spec.variants[0].maxNumSeqs = nothing"),
    ],
)
def test_a_wrong_variant_says_what_would_do(fields: dict[str, object], expected: str) -> None:
    assert any(expected in line for line in problems(variant(**fields)))


@pytest.mark.parametrize(
    ("instance", "generation", "allowed"),
    [
        ("inf2.xlarge", 1, True),
        ("trn1.2xlarge", 2, False),
        ("trn2.3xlarge", 1, True),
        ("trn2.3xlarge", 2, True),
        ("trn3-gen1-ultraserver", 1, False),
        ("trn3-gen1-ultraserver", 2, True),
    ],
)
def test_the_backend_generation_decides_what_a_chip_runs(
    instance: str, generation: int, allowed: bool
) -> None:
    one = variant(instanceType=instance, backendGeneration=generation)

    if allowed:
        assert parse(one).fleets[0].variants[0].generation == generation
    else:
        assert any("backendGeneration" in line for line in problems(one))


def test_lengths_may_be_a_distribution() -> None:
    traffic = (
        parse(
            document(
                traffic={
                    "closed": {"concurrency": 4},
                    "inputLengths": [
                        {"tokens": 100, "share": 0.25},
                        {"tokens": 500, "share": 0.75},
                    ],
                    "outputTokens": 10,
                }
            )
        )
        .fleets[0]
        .traffic
    )

    assert traffic.input_tokens.mean == 400
    assert [traffic.input_tokens.at(share) for share in (0.0, 0.24, 0.25, 0.99)] == [
        100,
        100,
        500,
        500,
    ]
    assert str(traffic) == "closed loop of 4 at 400/10"


def test_a_secret_and_each_kind_of_source_are_read() -> None:
    for kind, location in (
        ("s3", "s3://bucket/llama"),
        ("pvc", "claim/llama"),
        ("path", "/models/llama"),
        ("huggingFace", "org/name"),
    ):
        source = {kind: location, "secret": "token"}
        one = parse(document(model={"name": "m", "source": source})).fleets[0].model.source

        assert (one.kind, one.location, one.secret) == (SourceKind(kind), location, "token")


def test_two_fleets_share_a_file_and_a_budget_only_under_different_names() -> None:
    budget = {
        "apiVersion": "neuronfleet.dev/v1alpha1",
        "kind": "Budget",
        "metadata": {"name": "b"},
        "spec": {"usdPerHour": 3, "fleets": ["f", "nobody"]},
    }

    found = problems(document(), document(), budget)

    assert any("metadata.name = f, must be unique" in line for line in found)
    assert any("spec.fleets = nobody" in line for line in found)


def test_scaling_is_read_with_its_durations() -> None:
    scaling = {"minReplicas": 0, "maxReplicas": 3, "idleAfter": "1h30m", "forecast": "none"}

    assert parse(document(scaling=scaling)).fleets[0].bounds == Scaling(
        min_replicas=0, max_replicas=3, idle_after_s=5400, forecast=Forecast.NONE
    )


def test_a_field_given_twice_is_an_error_and_not_the_last_of_both() -> None:
    text = yaml.safe_dump(document()).replace("kind: ServingFleet", "kind: x\nkind: ServingFleet")

    with pytest.raises(SpecError, match="field kind is given twice"):
        fleet.parse(text)


def test_a_number_in_quotes_is_shown_with_them() -> None:
    assert "spec.variants[0].maxNumSeqs = '8', must be in [1, 4096]" in problems(
        variant(maxNumSeqs="8")
    )


@pytest.mark.parametrize("text", ["[" * 3000, "", "a: [", "just words", "- 1\n- 2", "kind: Pod"])
def test_what_is_no_fleet_file_is_one_clear_error(text: str) -> None:
    with pytest.raises(SpecError):
        fleet.parse(text)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"nowhere\.yaml: No such file"):
        fleet.load(tmp_path / "nowhere.yaml")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@given(
    field=st.sampled_from(
        ["model", "variants", "objective", "traffic", "replicas", "scaling", "drain", "metrics"]
    ),
    value=JSON,
)
def test_no_value_of_any_field_ends_in_anything_but_a_spec_or_its_problems(
    field: str, value: object
) -> None:
    try:
        parse(document(**{field: value}))
    except SpecError as wrong:
        assert wrong.problems  # noqa: PT017 - both outcomes are allowed, nothing else is
