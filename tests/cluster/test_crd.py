"""The CRD on a real API server: what it admits, what it refuses and how it says so."""

import copy
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from neuronfleet.serving.api import crd, fleet
from neuronfleet.serving.api.canary import Canary
from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.api.status import (
    DecisionRecord,
    FleetStatus,
    StatusCondition,
    VariantStatus,
)
from tests.cluster.cluster import Cluster
from tests.cluster.errors import ClusterError
from tests.crd_documents import Document, changed, document, full, strict_problems, variant

pytestmark = pytest.mark.cluster
ROOT = Path(__file__).parents[2]
FILE = ROOT / "serving/crds/servingfleets.neuronfleet.dev.yaml"
COLUMNS = crd.definition()["spec"]["versions"][0]["additionalPrinterColumns"]
OLDER = "older.neuronfleet.dev"
"""A group of the test's own: an older CRD in its place would prune the fleets of others."""


def established(cluster: Cluster, definition: Document) -> None:
    name = definition["metadata"]["name"]
    apply = ("apply", "--server-side", "--force-conflicts", "-f", "-")
    cluster.kubectl(*apply, input=json.dumps(definition))
    cluster.kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=30s")
    cluster.wait_for(lambda: "No resources" in _listed(cluster, name), f"{name} to be served")


def _listed(cluster: Cluster, name: str) -> str:
    return cluster.kubectl("get", name, "-n", "default", "-o", "name") or "No resources"


@pytest.fixture(scope="module")
def served(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with the committed CRD, which goes again where it was not there before."""
    definition = yaml.safe_load(FILE.read_text())
    was_there = cluster.find("crd", definition["metadata"]["name"]) is not None
    established(cluster, definition)
    yield cluster
    if not was_there:
        cluster.kubectl("delete", "crd", definition["metadata"]["name"])


@pytest.fixture
def fleets(served: Cluster, namespace: str) -> "Fleets":
    return Fleets(served, namespace)


class Fleets:
    """Fleets in one namespace of the cluster."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster, self._namespace = cluster, namespace

    def kubectl(self, *arguments: str, given: object = None) -> str:
        text = None if given is None else json.dumps(given)
        return self._cluster.kubectl("-n", self._namespace, *arguments, input=text)

    def refusal(self, given: object, *, dry: bool = True) -> str:
        """What the API server says against an object; empty where it takes it."""
        dry_run = ("--dry-run=server",) if dry else ()
        try:
            self.kubectl("apply", *dry_run, "-f", "-", given=given)
        except ClusterError as wrong:
            # An API server that is away refuses nothing.
            if not re.search(r"is invalid|Invalid value|unknown field", str(wrong)):
                raise
            return str(wrong)
        return ""


def open_traffic(**fields: object) -> Document:
    plain = {"open": {"requestsPerSecond": 1}, "inputTokens": 512, "outputTokens": 128}
    return {"traffic": {k: v for k, v in (plain | fields).items() if v is not None}}


def source(**fields: object) -> Document:
    return {"model": {"name": "m", "source": fields}}


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda p: p.name)
def test_every_example_is_admitted(fleets: Fleets, path: Path) -> None:
    for one in yaml.safe_load_all(path.read_text()):
        if one["kind"] == "ServingFleet":
            one["metadata"].pop("namespace", None)
            assert fleets.refusal(one) == ""


def test_the_full_fleet_is_stored_with_every_field_that_was_given(fleets: Fleets) -> None:
    fleets.kubectl("apply", "-f", "-", given=full())

    stored = json.loads(fleets.kubectl("get", "sf", "f", "-o", "json"))

    assert stored["spec"] == full()["spec"] | {
        "variants": [full()["spec"]["variants"][0], stored["spec"]["variants"][1]]
    }
    assert fleet.from_object(stored) == fleet.from_object(full())


REFUSED: list[tuple[Document, str]] = [
    (
        {"replicas": 2, "scaling": {"maxReplicas": 3}},
        "spec.replicas: Invalid value: must not be given beside scaling",
    ),
    (
        {"scaling": {"minReplicas": 5, "maxReplicas": 3}},
        "spec.scaling.minReplicas: Invalid value: must be in [0, maxReplicas]",
    ),
    (
        source(s3="s3://b/m", pvc="claim/m"),
        "spec.model.source: Invalid value: must have exactly one of huggingFace, s3, pvc, path",
    ),
    (source(), "spec.model.source: Invalid value: must have exactly one of huggingFace"),
    (
        {
            "model": {
                "name": "m",
                "source": {"path": "/m"},
                "config": "c",
                "architecture": "qwen3-8b",
            }
        },
        "spec.model.config: Invalid value: must not be given beside architecture",
    ),
    (
        {"variants": [variant(buckets={"prefill": [512, 4096]})]},
        "spec.variants[0].buckets.prefill: Invalid value: must not exceed maxModelLen",
    ),
    (
        {"variants": [variant(buckets={"decode": [512, 256]})]},
        "spec.variants[0].buckets.decode: Invalid value: must be ascending whole numbers in [1, 1",
    ),
    (
        {"variants": [variant(buckets={"decode": [512, 512]})]},
        "spec.variants[0].buckets.decode: Invalid value: must be ascending whole numbers",
    ),
    ({"variants": [variant(), variant()]}, 'spec.variants[1]: Duplicate value: {"name":"inf2"}'),
    (
        {"variants": [variant(backendGeneration=2)]},
        "spec.variants[0].backendGeneration: Invalid value: must be 1 on inf2.xlarge",
    ),
    (
        {"variants": [variant(instanceType="trn3-gen1-ultraserver", backendGeneration=1)]},
        "spec.variants[0].backendGeneration: Invalid value: must be 2 on trn3-gen1-ultraserver",
    ),
    (
        {"variants": [variant(instanceType="h200", backendGeneration=1, tensorParallelDegree=1)]},
        "spec.variants[0].backendGeneration: Invalid value: must be absent on h200",
    ),
    (
        {"variants": [variant(tensorParallelDegree=4)]},
        "spec.variants[0].tensorParallelDegree: Invalid value: must be in [1, 2]",
    ),
    (
        {"variants": [variant(logicalCoreSize=2)]},
        "spec.variants[0].tensorParallelDegree: Invalid value: must be in [1, 1]",
    ),
    (
        open_traffic(closed={"concurrency": 1}),
        "spec.traffic: Invalid value: must have exactly one of open, closed",
    ),
    (open_traffic(open=None), "spec.traffic: Invalid value: must have exactly one of open, closed"),
    (
        open_traffic(inputLengths=[{"tokens": 1, "share": 1}]),
        "spec.traffic: Invalid value: must have exactly one of inputTokens, inputLengths",
    ),
    (
        open_traffic(outputTokens=None, outputLengths=[{"tokens": 1, "share": 0.5}]),
        "spec.traffic.outputLengths: Invalid value: shares must sum to 1",
    ),
    (
        {"drain": {"timeout": "48h"}},
        'spec.drain.timeout: Invalid value: "48h": must be a duration in [0s, 86400s]',
    ),
    (
        {"queue": {"timeout": "50ms"}},
        'spec.queue.timeout: Invalid value: "50ms": must be a duration in [0.1s, 86400s]',
    ),
    ({"canary": {"expect": "Par(is"}}, "spec.canary.expect: Invalid value"),
    ({"canary": {"expect": "a(?=b)"}}, "must be a regular expression of RE2"),
    (
        {"variants": [variant(instanceType="inf2.xlrge")]},
        'spec.variants[0].instanceType: Unsupported value: "inf2.xlrge": supported values: "inf2.x',
    ),
    (
        {"variants": [variant(maxNumSeqs=0)]},
        "spec.variants[0].maxNumSeqs in body should be greater than or equal to 1",
    ),
    ({"variants": []}, "spec.variants in body should have at least 1 items"),
    (
        {"variants": [variant(reservation={"id": "r", "endsAt": "tomorrow"})]},
        "must be a time with zone, as 2026-12-01T11:30:00Z",
    ),
    (
        {"variants": [variant(reservation={"id": "r", "endsAt": []})]},
        "spec.variants[0].reservation.endsAt in body must be of type string",
    ),
    ({"variants": [variant(reservation={})]}, "spec.variants[0].reservation.id: Required value"),
    ({"scalling": {"maxReplicas": 3}}, 'unknown field "spec.scalling"'),
]


@pytest.mark.parametrize(("spec", "says"), REFUSED, ids=[says[:60] for _, says in REFUSED])
def test_a_bad_spec_is_refused_with_the_field_and_the_range(
    fleets: Fleets, spec: Document, says: str
) -> None:
    assert strict_problems(document(**spec)), "the parser would take it"
    assert says in fleets.refusal(document(**spec))


def test_the_api_server_takes_what_the_parser_takes_and_nothing_else(
    served: Cluster, namespace: str
) -> None:
    fleets = Fleets(served, namespace)

    @settings(max_examples=60, deadline=None, derandomize=True, database=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(changed())
    def agree(one: Document) -> None:
        found, said = strict_problems(one), fleets.refusal(one)
        assert bool(said) == bool(found), (one, found, said)

    agree()


def test_a_fleet_with_a_name_that_no_label_takes_is_refused(fleets: Fleets) -> None:
    given_ = document() | {"metadata": {"name": "llama.8b"}}

    assert "metadata.name in body should match" in fleets.refusal(given_)


def test_the_model_of_a_fleet_may_move_but_not_change_its_name(fleets: Fleets) -> None:
    fleets.kubectl("apply", "-f", "-", given=document())

    moved = document(model={"name": "m", "source": {"s3": "s3://bucket/m"}})
    assert fleets.refusal(moved) == ""
    renamed = document(model={"name": "n", "source": {"s3": "s3://bucket/m"}})
    assert "must stay m, since the gateway routes by it" in fleets.refusal(renamed)


def test_get_shows_the_columns_and_wait_sees_the_condition(fleets: Fleets) -> None:
    fleets.kubectl("apply", "-f", "-", given=document())
    status = FleetStatus(
        observed_generation=1,
        replicas=3,
        selector="neuronfleet.dev/fleet=f",
        desired=3,
        serving=2,
        standby=0,
        ceiling=64,
        load=41.5,
        usd_per_hour=2.2746,
        reason="SlotsNeeded",
        conditions=(StatusCondition(type="Ready", status="True", reason="Serving"),),
    )
    _write_status(fleets, status)

    header, row = fleets.kubectl("get", "sf").splitlines()

    assert header.split() == ["NAME", *(column["name"].upper() for column in COLUMNS)]
    assert row.split()[:-1] == ["f", "True", "3", "2", "0", "64", "41.5", "2.2746", "SlotsNeeded"]
    fleets.kubectl("wait", "--for=condition=Ready", "sf/f", "--timeout=5s")
    assert "servingfleet.neuronfleet.dev/f" in fleets.kubectl("get", "all", "-o", "name")
    assert "Most replicas." in fleets.kubectl("explain", "sf.spec.scaling.maxReplicas")


def test_what_is_unknown_is_shown_as_nothing_and_not_as_zero(fleets: Fleets) -> None:
    fleets.kubectl("apply", "-f", "-", given=document())
    _write_status(fleets, FleetStatus(desired=1))

    path = "jsonpath={.status}"

    assert json.loads(fleets.kubectl("get", "sf", "f", "-o", path)) == {"desired": 1}
    assert "0" not in fleets.kubectl("get", "sf").splitlines()[1].split()[1:-1]


def test_a_status_is_stored_whole_and_read_back(fleets: Fleets) -> None:
    fleets.kubectl("apply", "-f", "-", given=document())
    record = DecisionRecord.from_dict(
        {"at": "2026-11-30T12:00:00.25Z", "reason": "Steady", "desired": {"inf2": 2}}
    )
    status = FleetStatus(
        last_decision=record,
        decisions=(record,) * 10,
        variants=(VariantStatus(name="inf2", boots=(548.0,) * 20, boot_p90_seconds=548.0),),
    )
    _write_status(fleets, status)

    stored = json.loads(fleets.kubectl("get", "sf", "f", "-o", "json"))["status"]

    assert FleetStatus.from_dict(stored) == status
    with pytest.raises(ClusterError, match=r"status\.decisions"):
        _write_status(fleets, FleetStatus(decisions=(record,) * 11))


def test_scale_sets_replicas_and_is_refused_beside_scaling(fleets: Fleets) -> None:
    fleets.kubectl("apply", "-f", "-", given=document(replicas=1))
    _write_status(fleets, FleetStatus(replicas=2, selector="neuronfleet.dev/fleet=f"))

    fleets.kubectl("scale", "sf/f", "--replicas=3")

    assert fleets.kubectl("get", "sf", "f", "-o", "jsonpath={.spec.replicas}") == "3"
    scale = json.loads(fleets.kubectl("get", "sf", "f", "--subresource=scale", "-o", "json"))
    assert scale["spec"]["replicas"] == 3
    assert scale["status"] == {"replicas": 2, "selector": "neuronfleet.dev/fleet=f"}
    fleets.kubectl("patch", "sf", "f", "--type=merge", "-p",
                   '{"spec": {"replicas": null, "scaling": {"maxReplicas": 4}}}')  # fmt: skip
    with pytest.raises(ClusterError, match="must not be given beside scaling"):
        fleets.kubectl("scale", "sf/f", "--replicas=3")


def test_an_object_that_an_older_version_stored_still_reads(
    cluster: Cluster, namespace: str
) -> None:
    fleets, name = Fleets(cluster, namespace), f"{crd.PLURAL}.{OLDER}"
    older = _older(crd.definition())
    established(cluster, older)
    try:
        given_ = document(priority=5, scaling={"minReplicas": 9, "maxReplicas": 3})
        good = document(priority=5, scaling={"minReplicas": 1, "maxReplicas": 3})
        good["metadata"] = {"name": "good"}
        for one in (given_, good):
            fleets.kubectl("apply", "-f", "-", given=one | {"apiVersion": f"{OLDER}/{crd.VERSION}"})
        _write_status(fleets, {"mood": "good", "desired": 2}, f"{name}/good")

        established_again(cluster, _of_group(crd.definition()))

        stored = _read(fleets, name, "good")
        read = fleet.from_object(stored)
        assert (read.bounds.max_replicas, read.canary) == (3, Canary())
        assert FleetStatus.from_dict(stored["status"]) == FleetStatus(desired=2)
        with pytest.raises(SpecError, match=r"minReplicas = 9, must be in \[0, maxReplicas = 3\]"):
            fleet.from_object(_read(fleets, name, "f"))
        fleets.kubectl("annotate", f"{name}/good", "touched=yes")
    finally:
        cluster.kubectl("delete", "crd", name, "--ignore-not-found")


def established_again(cluster: Cluster, definition: Document) -> None:
    """Replace a CRD, and wait until the API server holds objects to the new one."""
    apply = ("apply", "--server-side", "--force-conflicts", "-f", "-")
    cluster.kubectl(*apply, input=json.dumps(definition))
    bad = document(scaling={"minReplicas": 9, "maxReplicas": 3}) | {
        "apiVersion": f"{OLDER}/{crd.VERSION}",
        "metadata": {"name": "probe"},
    }
    probe, end = Fleets(cluster, "default"), time.monotonic() + 30
    while "maxReplicas" not in probe.refusal(bad):
        assert time.monotonic() < end, "the new CRD is not in force after 30 s"
        time.sleep(0.3)


def _of_group(definition: Document) -> Document:
    """The CRD in the test's own group, without the names that belong to the real one."""
    given_ = copy.deepcopy(definition)
    given_["metadata"]["name"] = f"{crd.PLURAL}.{OLDER}"
    given_["spec"]["group"] = OLDER
    for names in ("shortNames", "categories"):
        given_["spec"]["names"].pop(names)
    return given_


def _older(definition: Document) -> Document:
    """The CRD as it could have been: without canary and rules, with what has gone since."""
    given_ = _of_group(definition)
    schema = given_["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    del schema["spec"]["properties"]["canary"]
    schema["spec"]["properties"]["priority"] = {"type": "integer"}
    schema["status"]["properties"]["mood"] = {"type": "string"}
    _drop_rules(schema)
    return given_


def _drop_rules(node: Any) -> None:
    if isinstance(node, dict):
        node.pop("x-kubernetes-validations", None)
        for inner in node.values():
            _drop_rules(inner)


def _read(fleets: Fleets, kind: str, name: str) -> Document:
    stored: Document = json.loads(fleets.kubectl("get", kind, name, "-o", "json"))
    return stored | {"apiVersion": fleet.API_VERSION}


def _write_status(fleets: Fleets, status: FleetStatus | Document, of: str = "sf/f") -> None:
    plain = status.to_dict() if isinstance(status, FleetStatus) else status
    patch = json.dumps({"status": plain})
    fleets.kubectl("patch", of, "--subresource=status", "--type=merge", "-p", patch)
