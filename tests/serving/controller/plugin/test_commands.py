import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from neuronfleet.serving.api import crd
from neuronfleet.serving.controller.plugin.main import PROMETHEUS, app
from tests.schema import check
from tests.serving.controller.plugin.fake_server import FakeServer, serving
from tests.serving.controller.plugin.objects import (
    NOW,
    deployment,
    fleet,
    gateway_pod,
    guard,
    lease,
    node,
    pinned,
    pod,
    waiting,
)

FLEETS = "/apis/neuronfleet.dev/v1alpha1/namespaces/serving/servingfleets"
CORE = "/api/v1/namespaces/serving"
ONE = "f-inf2-aaaaaaaa-7d9f8b6c5d-x2k4q"


def items(*bodies: Any) -> dict[str, Any]:
    return {"items": list(bodies)}


def row(value: float, **labels: str) -> dict[str, Any]:
    return {"metric": labels, "value": [NOW, str(value)]}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    """A cluster with one fleet of two replicas, and the kubeconfig that leads to it."""
    with serving() as fake:
        monkeypatch.setenv("KUBECONFIG", str(fake.kubeconfig(tmp_path)))
        monkeypatch.delenv(PROMETHEUS, raising=False)
        monkeypatch.delenv("COLUMNS", raising=False)
        body = fleet(variants=[pinned()])
        fake.answers = {
            f"{FLEETS}/f": body,
            FLEETS: items(body),
            "/apis/neuronfleet.dev/v1alpha1/servingfleets": items(body),
            f"{CORE}/pods": items(pod(ONE)),
            "/api/v1/pods": items(pod(ONE)),
            "/apis/apps/v1/namespaces/serving/deployments": items(deployment()),
            "/api/v1/nodes": items(node()),
            f"{CORE}/events": items(),
            f"{CORE}/resourcequotas": items(),
            "/apis/policy/v1/namespaces/serving/poddisruptionbudgets": items(
                guard("PodDisruptionBudget")
            ),
            "/apis/networking.k8s.io/v1/namespaces/serving/networkpolicies": items(
                guard("NetworkPolicy")
            ),
            "/apis/coordination.k8s.io/v1/leases": items(lease("neuronfleet", "gateway-1", 1.0)),
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"
            "servingfleets.neuronfleet.dev": crd.definition(),
        }
        fake.series = {
            "fleet:.+": [
                row(NOW - 5, __name__="fleet:scraped:timestamp", fleet="serving.f"),
                row(3, __name__="fleet:queued:sum", fleet="serving.f"),
                row(4, __name__="haproxy_server_current_sessions", proxy="serving.f", server=ONE),
            ],
            "generation_tokens": [
                row(8000, fleet="serving.f", replica=ONE),
                row(1, pod="some-other-vllm"),
                row(float("nan"), fleet="serving.f", replica="idle"),
            ],
            "time_scale": [row(20, fleet="serving.f", replica=ONE)],
        }
        yield fake


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_why_reads_the_fleet_of_the_contexts_namespace(server: FakeServer) -> None:
    done = run("why", "f")

    assert done.exit_code == 0, done.output
    assert "AtMaximum: the load needs more replicas" in done.stdout
    # By the server's clock: this machine's is another.
    assert "Inputs of the last decision (3m ago)" in done.stdout


def test_a_namespace_may_stand_before_the_command_or_behind_it(server: FakeServer) -> None:
    for arguments in (("-n", "else", "why", "f"), ("why", "f", "--namespace", "else")):
        assert run(*arguments).exit_code == 2
    assert all("/namespaces/else/" in path for path, *_ in server.asked)


def test_a_context_brings_its_namespace(server: FakeServer) -> None:
    assert "f in namespace elsewhere" in run("why", "f", "--context", "other").stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("why", "g"), "no ServingFleet g in namespace serving: `kubectl get sf -A`"),
        (("why", "F!"), "NAME = F!, must match"),
        (("why", "f", "-n", "A B"), "--namespace = A B, must match"),
        (("why", "f", "--context", "nowhere"), "nowhere"),
        (("why", "f", "--kubeconfig", "nowhere"), "--kubeconfig = nowhere, must be a file"),
        (("top",), "--prometheus = nothing, must be a URL of Prometheus (or set NEURONFLEET_PROM"),
        (("top", "--prometheus", "localhost:9090"), "--prometheus = localhost:9090, must be a URL"),
        (("top", "f", "-A"), "--all-namespaces and NAME = f, must be one or the other"),
        (("top", "-A", "-n", "x"), "--all-namespaces and --namespace = x, must be one or the"),
        (("doctor", "g"), "no ServingFleet g in namespace serving"),
        (("why",), "Missing argument"),
        (("guess",), "No such command"),
    ],
)
def test_bad_use_is_one_clear_error_and_status_2(
    server: FakeServer, arguments: tuple[str, ...], says: str
) -> None:
    done = run(*arguments)

    assert done.exit_code == 2
    assert says in done.stderr
    assert done.stdout == ""


def test_no_kubeconfig_is_told_by_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere/config")

    done = run("why", "f")

    assert done.exit_code == 2
    assert "kubeconfig /nowhere/config is not there" in done.stderr


def test_a_file_that_is_no_kubeconfig_is_told(tmp_path: Path) -> None:
    for text in ("{}", "a: [", "- 1", "current-context: x"):
        (tmp_path / "config").write_text(text)
        done = run("why", "f", "--kubeconfig", str(tmp_path / "config"))
        assert done.exit_code == 2, (text, done.output, done.exception)
        assert "must name a cluster and a user" in done.stderr


def test_a_missing_crd_is_told_as_such(server: FakeServer) -> None:
    server.answers[FLEETS] = 404

    done = run("top", "--prometheus", server.url)

    assert done.exit_code == 2
    assert "no CRD servingfleets.neuronfleet.dev of version v1alpha1" in done.stderr


@pytest.mark.parametrize(("status", "says"), [(403, "403 User cannot"), (500, "500 it broke")])
def test_a_refusal_is_a_failure_with_what_was_said(
    server: FakeServer, status: int, says: str
) -> None:
    server.answers[f"{FLEETS}/f"] = status

    done = run("why", "f")

    assert done.exit_code == 1
    assert says in done.stderr


def test_an_api_server_that_is_away_is_a_failure(server: FakeServer, tmp_path: Path) -> None:
    server.url = "http://127.0.0.1:9"

    done = run("doctor", "f", "--kubeconfig", str(server.kubeconfig(tmp_path)))

    assert done.exit_code == 1
    assert "the API server http://127.0.0.1:9 does not answer" in done.stderr


def test_top_joins_pods_prices_and_prometheus(server: FakeServer) -> None:
    done = run("top", "f", "--prometheus", server.url + "/")

    assert done.exit_code == 0, done.output
    assert "serving/f: load 7, 3 of it queued, 8 slots" in done.stdout
    # 8,000 tok/s at scale 20; 0.7582 / (400 * 3600) * 1e6
    cells = done.stdout.splitlines()[2].split()
    assert cells == [
        ONE, "inf2", "ip-10-0-1-2.us-east-2.compute.internal", "serving", "4/4", "400", "0.76",
        "0.527", "emulated",
    ]  # fmt: skip


def test_top_takes_prometheus_from_the_environment_and_all_namespaces(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROMETHEUS, server.url)

    done = run("top", "-A", "--json")

    assert done.exit_code == 0, done.output
    check(json.loads(done.stdout), "kubectl-top")
    assert json.loads(done.stdout)[0]["replicas"][0]["figures"] == "emulated"


def test_top_without_fleets_says_so(server: FakeServer) -> None:
    server.answers[FLEETS] = items()

    assert run("top", "--prometheus", server.url).stdout == "no ServingFleet\n"


@pytest.mark.parametrize("broken", ["generation_tokens", "fleet:.+", "time_scale"])
def test_a_prometheus_that_fails_is_told_with_what_to_do(server: FakeServer, broken: str) -> None:
    del server.series[broken]

    done = run("top", "f", "--prometheus", server.url)

    assert done.exit_code == 1
    assert "422 no such query" in done.stderr
    assert "kubectl port-forward" in done.stderr


def test_a_prometheus_that_is_away_is_told_with_what_to_do(server: FakeServer) -> None:
    done = run("top", "f", "--prometheus", "http://127.0.0.1:9")

    assert done.exit_code == 1
    assert "Prometheus http://127.0.0.1:9" in done.stderr
    assert "kubectl port-forward" in done.stderr


def healthy(server: FakeServer) -> None:
    server.answers["/api/v1/pods"] = items(gateway_pod("gateway-1"), gateway_pod("gateway-2"))


def test_the_doctor_ends_with_0_where_nothing_fails(server: FakeServer) -> None:
    healthy(server)

    done = run("doctor", "f")

    assert done.exit_code == 0, done.output
    assert "19 ok, 0 warn, 0 fail" in done.stdout


def test_the_doctor_asks_for_the_leases_of_the_gateways_deployments(server: FakeServer) -> None:
    healthy(server)

    run("doctor", "f", "--controller-lease", "mine")

    selectors = {query["fieldSelector"] for path, query, _ in server.asked if "leases" in path}
    assert selectors == {"metadata.name=mine", "metadata.name=neuronfleet-gateway"}


def test_the_doctor_ends_with_1_and_shows_the_last_words(server: FakeServer) -> None:
    server.answers[f"{CORE}/pods"] = items(waiting("CrashLoopBackOff", restartCount=4))
    server.answers[f"{CORE}/pods/{ONE}/log"] = "no devices\n"

    done = run("doctor", "f", "--json")

    assert done.exit_code == 1
    check(json.loads(done.stdout), "kubectl-doctor")
    assert "last words: no devices" in done.stdout
    query = next(query for path, query, _ in server.asked if path.endswith("/log"))
    assert query["previous"] == "true"


def test_the_doctor_reads_that_a_secret_exists_and_not_what_it_holds(server: FakeServer) -> None:
    source = {"huggingFace": "a/b", "secret": "hf"}
    server.answers[f"{FLEETS}/f"] = fleet(model={"name": "m", "source": source})
    server.answers[f"{CORE}/secrets/hf"] = {"kind": "PartialObjectMetadata"}

    done = run("doctor", "f")

    assert "Secret hf is there" in done.stdout
    [accept] = [accept for path, _, accept in server.asked if path.endswith("/secrets/hf")]
    assert accept == "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


def test_the_doctor_without_rights_says_unknown_and_goes_on(server: FakeServer) -> None:
    for path in server.answers:
        if path != f"{FLEETS}/f":
            server.answers[path] = 403

    done = run("doctor", "f")

    assert done.exit_code == 0, done.output
    assert "unknown: not allowed to list pods" in done.stdout
    assert "unknown: not allowed to list nodes" in done.stdout


def test_a_pipe_gets_no_colour_no_filling_and_no_line_that_is_cut(server: FakeServer) -> None:
    long = "no node of " + "x" * 400
    server.answers[f"{FLEETS}/f"]["status"]["conditions"] += [
        {"type": "CapacityAvailable", "status": "False", "reason": "NoCapacity", "message": long}
    ]
    server.answers[f"{FLEETS}/f"]["status"]["conditions"].pop(4)

    for arguments in (("why", "f"), ("doctor", "f"), ("top", "f", "--prometheus", server.url)):
        shown = run(*arguments).output
        assert "\x1b" not in shown
        assert all(line == line.rstrip() for line in shown.splitlines()), shown
        assert arguments[0] == "top" or long in shown


def test_columns_bound_the_width_of_a_pipe(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    for arguments in (("why", "f"), ("doctor", "f"), ("top", "f", "--prometheus", server.url)):
        assert max(map(len, run(*arguments).output.splitlines())) <= 80
