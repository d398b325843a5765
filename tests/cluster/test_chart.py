"""The chart on a real cluster: installed, installed again, upgraded, rolled back, taken away."""

import copy
import json
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster import Cluster, running
from tests.cluster.errors import ClusterError
from tests.cluster.image_build import ImageRef
from tests.cluster.manifests import ON_REAL, pod
from tests.crd_documents import document
from tests.serving.chart import rights
from tests.serving.chart.charts import CHART, EVERY_OPTION, Object, render
from tests.serving.chart.rights import Right, Where

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
RELEASE = "neuronfleet"
CRD = "servingfleets.neuronfleet.dev"
PARTS = ("controller", "gateway")
OURS = "app.kubernetes.io/instance=neuronfleet"
KINDS = (
    "deployments,services,serviceaccounts,configmaps,poddisruptionbudgets,networkpolicies,"
    "roles,rolebindings,ingresses"
)
WIDE = "clusterroles,clusterrolebindings"
LEASES = {"neuronfleet-controller", "neuronfleet-gateway"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The chart in a namespace of its own."""

    cluster: Cluster
    namespace: str
    values: Mapping[str, Any]
    file: Path

    def install(self, *options: str, **changed: Any) -> str:
        """`helm upgrade --install` with the values and these changes."""
        self.file.write_text(json.dumps(merged(self.values, changed)))
        return self.helm(
            "upgrade", "--install", RELEASE, str(CHART), "--values", str(self.file),
            # The CRD may have come by another test's `kubectl apply`.
            "--take-ownership", *options,
        )  # fmt: skip

    def helm(self, *arguments: str) -> str:
        return self.cluster.helm(*arguments, "--namespace", self.namespace)

    def rolled_out(self, part: str) -> None:
        where = ("-n", self.namespace)
        try:
            self.cluster.kubectl(
                "rollout", "status", f"deployment/{RELEASE}-{part}", "--timeout=90s", *where
            )
        except ClusterError as error:
            pods = self.cluster.kubectl("get", "pods", "-o", "wide", *where)
            chosen = ("-l", f"app.kubernetes.io/component={part}", "--tail=15", "--prefix")
            said = self.cluster.kubectl("logs", *chosen, *where)
            events = self.cluster.kubectl("get", "events", *where)
            raise ClusterError(f"{error}\n{pods}\n{said}\n{events}") from error

    def get(self, kind: str, *more: str) -> list[Object]:
        found: list[Object] = self.cluster.get(kind, "-n", self.namespace, *more)["items"]
        return found

    def versions(self) -> dict[str, str]:
        """What tells of any change of the release's objects, their status left out."""
        found = [*self.get(f"{KINDS},{WIDE}", "-l", OURS), self.cluster.get("crd", CRD)]
        return {
            f"{one['kind']}/{one['metadata'].get('namespace')}/{one['metadata']['name']}": str(
                one["metadata"].get("generation", one["metadata"]["resourceVersion"])
            )
            for one in found
            if one["metadata"].get("namespace", self.namespace) == self.namespace
            and self._is_of_here(one)
        }

    def _is_of_here(self, one: Object) -> bool:
        return "Cluster" not in one["kind"] or one["metadata"]["name"].startswith(self.namespace)

    def template(self, part: str) -> Object:
        found: Object = self.cluster.get("deployment", f"{RELEASE}-{part}", "-n", self.namespace)
        return found["spec"]["template"]  # type: ignore[no-any-return]

    def account(self, part: str) -> str:
        return f"system:serviceaccount:{self.namespace}:{RELEASE}-{part}"


def merged(values: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = dict(copy.deepcopy(values))
    for name, value in changed.items():
        inner = made.get(name)
        if isinstance(inner, Mapping) and isinstance(value, Mapping):
            value = merged(inner, value)
        made[name] = value
    return made


def own_namespace(cluster: Cluster) -> str:
    name = f"chart-{secrets.token_hex(4)}"
    cluster.kubectl("create", "namespace", name)
    levels = [f"pod-security.kubernetes.io/{mode}=restricted" for mode in ("enforce", "warn")]
    cluster.kubectl("label", "namespace", name, *levels)
    return name


@pytest.fixture(scope="module")
def crd_as_before(cluster: Cluster) -> Iterator[None]:
    """Whoever had the CRD before has it again: Helm's marks go, and it too where it was not."""
    before = cluster.find("crd", CRD)
    yield
    if before is None:
        cluster.kubectl("delete", "crd", CRD, "--ignore-not-found", "--wait=false")
        return
    held = before["metadata"].get("annotations", {})
    marks = [f"meta.helm.sh/release-{what}" for what in ("name", "namespace")]
    notes = {name: held.get(name) for name in (*marks, "helm.sh/resource-policy")}
    label = before["metadata"].get("labels", {}).get("app.kubernetes.io/managed-by")
    body = {"annotations": notes, "labels": {"app.kubernetes.io/managed-by": label}}
    patch = ("--type=merge", "-p", json.dumps({"metadata": body}))
    cluster.kubectl("patch", "crd", CRD, *patch)


@pytest.fixture
def release(
    cluster: Cluster, images: dict[str, ImageRef], crd_as_before: None, tmp_path: Path
) -> Iterator[Release]:
    """The chart's values for this cluster, in a new namespace; nothing of it stays."""
    one = _release(cluster, images, tmp_path)
    yield one
    _gone(one)


@pytest.fixture(scope="module")
def installed(
    cluster: Cluster, images: dict[str, ImageRef], crd_as_before: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Release]:  # fmt: skip
    """A release whose pods run."""
    one = _release(cluster, images, tmp_path_factory.mktemp("values"))
    one.install()
    for part in PARTS:
        one.rolled_out(part)
    yield one
    _gone(one)


def _release(cluster: Cluster, images: Mapping[str, ImageRef], folder: Path) -> Release:
    namespace = own_namespace(cluster)
    tags = {part: images[part].reference.rpartition(":")[2] for part in PARTS}
    # Several releases share the few CPUs of the one node.
    small = {"requests": {"cpu": "10m", "memory": "64Mi"}}
    values: dict[str, Any] = {
        "imageRegistry": images["controller"].reference.rpartition("/")[0],
        # Other tests have fleets in this cluster, and controllers of their own for them.
        "watchNamespaces": [namespace],
        "prometheus": {"url": f"http://{cluster.node_address}:1", "cidrs": ["10.0.0.0/8"]},
        **{
            part: {"image": {"tag": tags[part]}, "nodeSelector": ON_REAL, "resources": small}
            for part in PARTS
        },
    }
    values["gateway"]["drainSeconds"] = 5
    return Release(cluster=cluster, namespace=namespace, values=values, file=folder / "values.json")


def _gone(release: Release) -> None:
    if RELEASE in release.helm("list", "--short"):
        release.helm("uninstall", RELEASE)
    release.cluster.kubectl("delete", "namespace", release.namespace, "--wait=false")


# What the API server says


def tried(cluster: Cluster, objects: list[Object]) -> str:
    """A server-side dry run that takes no unknown field and no warning."""
    known = [one for one in objects if not one["apiVersion"].startswith("monitoring.coreos.com")]
    return cluster.kubectl(
        "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict",
        "--warnings-as-errors", "-f", "-",
        input=json.dumps({"apiVersion": "v1", "kind": "List", "items": known}),
    )  # fmt: skip


@pytest.mark.parametrize("every_option", [False, True])
def test_the_api_server_takes_every_object_strictly_and_without_a_warning(
    cluster: Cluster, every_option: bool
) -> None:
    namespace = own_namespace(cluster)
    try:
        own = {"watchNamespaces": [namespace]}
        made = render({**EVERY_OPTION, **own} if every_option else None, namespace=namespace)
        pods = [pod_of(one) for one in made if one["kind"] == "Deployment"]

        said = tried(cluster, [*made, *pods])
    finally:
        cluster.kubectl("delete", "namespace", namespace, "--wait=false")

    assert said.count("serverside-applied") >= len(made) - 4


def pod_of(deployment: Object) -> Object:
    """The pod that a Deployment would make, under an account that is there already."""
    template = copy.deepcopy(deployment["spec"]["template"])
    where = {key: deployment["metadata"][key] for key in ("name", "namespace")}
    template["spec"]["serviceAccountName"] = "default"
    template["spec"].pop("priorityClassName", None)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": where | template["metadata"],
        "spec": template["spec"],
    }


# A release that runs


def test_pods_run_where_restricted_is_enforced_and_each_part_has_one_leader(
    installed: Release,
) -> None:
    pods = installed.get("pods", "-l", OURS)

    assert len(pods) == 4
    assert running(pods)
    names = {one["metadata"]["name"] for one in pods}

    def led() -> bool:
        holders = {one["spec"].get("holderIdentity") for one in installed.get("leases")}
        return len(holders) == 2 and holders <= names

    installed.cluster.wait_for(led, "both Leases are held by pods of the release")
    assert {one["metadata"]["name"] for one in installed.get("leases")} == LEASES


def test_no_right_is_missing_to_what_runs(installed: Release) -> None:
    test_pods_run_where_restricted_is_enforced_and_each_part_has_one_leader(installed)
    for part in PARTS:
        chosen = f"app.kubernetes.io/component={part}"
        logs = installed.cluster.kubectl(
            "logs", "-n", installed.namespace, "-l", chosen, "--tail=-1", "--prefix"
        )
        assert not re.findall(r".*(?:[Ff]orbidden|\b403\b).*", logs)


def test_a_second_install_changes_nothing(installed: Release) -> None:
    before = installed.versions()

    installed.install()

    assert len(before) > 15
    assert installed.versions() == before


def question(right: Right, name: str = "") -> list[str]:
    resource, _, sub = right.resource.partition("/")
    typed = f"{resource}.{right.group}" if right.group else resource
    asked = [right.verb, f"{typed}/{name}" if name else typed]
    return [*asked, f"--subresource={sub}"] if sub else asked


def may(release: Release, part: str, namespace: str, *asked: str) -> bool:
    where = ("-n", namespace) if namespace else ()
    try:
        said = release.cluster.kubectl(
            "auth", "can-i", *asked, f"--as={release.account(part)}", *where
        )
    except ClusterError as error:
        # Exit status 1 is the answer no; anything else was no answer.
        if not re.search(r"\bno\b", str(error)):
            raise
        return False
    return "yes" in said


LIST = rights.wanted("neuronfleet-controller", "neuronfleet-gateway")


def test_every_listed_right_is_had(installed: Release) -> None:
    lacking = [
        f"{right.part} {right.verb} {right.resource} in {right.where}"
        for right in LIST
        for name in (right.names or ("",))
        if not may(
            installed,
            right.part,
            "" if right.where is Where.CLUSTER else installed.namespace,
            *question(right, name),
        )
    ]

    assert not lacking


HOME, ELSEWHERE, EVERYWHERE = "home", "kube-system", ""
TEMPTING = [
    ("get secrets", HOME),
    ("list secrets", HOME),
    ("get configmaps", HOME),
    ("create pods", HOME),
    ("create pods/exec", HOME),
    ("create pods/eviction", HOME),
    ("create serviceaccounts/token", HOME),
    ("create rolebindings.rbac.authorization.k8s.io", HOME),
    ("escalate roles.rbac.authorization.k8s.io", HOME),
    ("delete servingfleets.neuronfleet.dev", HOME),
    ("update servingfleets.neuronfleet.dev", HOME),
    ("delete networkpolicies.networking.k8s.io", HOME),
    ("update leases.coordination.k8s.io/another", HOME),
    ("delete leases.coordination.k8s.io", HOME),
    ("list pods", ELSEWHERE),
    ("list deployments.apps", ELSEWHERE),
    ("patch deployments.apps", ELSEWHERE),
    ("update leases.coordination.k8s.io/kube-scheduler", ELSEWHERE),
    ("list servingfleets.neuronfleet.dev", ELSEWHERE),
    ("delete nodes", EVERYWHERE),
    ("update nodes", EVERYWHERE),
    ("get nodes/proxy", EVERYWHERE),
    ("create namespaces", EVERYWHERE),
    ("patch customresourcedefinitions.apiextensions.k8s.io", EVERYWHERE),
    ("impersonate users", EVERYWHERE),
]


@pytest.mark.parametrize("part", PARTS)
def test_nothing_tempting_is_had(installed: Release, part: str) -> None:
    had = []
    for asked, where in TEMPTING:
        verb, _, resource = asked.partition(" ")
        kind, slash, last = resource.partition("/")
        sub = last in ("exec", "eviction", "token", "proxy")
        named = [f"{kind}/{last}"] if slash and not sub else [kind]
        more = [f"--subresource={last}"] if sub else []
        namespace = installed.namespace if where == HOME else where
        if may(installed, part, namespace, verb, *named, *more):
            had.append(asked)

    assert not had


@pytest.mark.parametrize("part", PARTS)
def test_only_the_controller_writes(installed: Release, part: str) -> None:
    writing = ("create services", "patch pods", "delete deployments.apps", "create events")
    home = installed.namespace

    assert {may(installed, part, home, *one.split()) for one in writing} == {part == "controller"}


def test_one_verb_too_many_is_refused_to_a_real_token(installed: Release) -> None:
    token = installed.cluster.kubectl(
        "create", "token", f"{RELEASE}-controller", "-n", installed.namespace
    ).strip()
    # The administrator's certificate would win over the token.
    server = installed.cluster.kubectl(
        "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}"
    )

    def ask(*arguments: str) -> str:
        return installed.cluster.kubectl(
            "--kubeconfig=/dev/null", f"--server={server}", "--insecure-skip-tls-verify=true",
            f"--token={token}", "-n", installed.namespace, *arguments,
        )  # fmt: skip

    assert "neuronfleet-gateway" in ask("get", "deployments", "-o", "name")
    with pytest.raises(ClusterError, match=r"[Ff]orbidden"):
        ask("get", "secrets")
    with pytest.raises(ClusterError, match=r"[Ff]orbidden"):
        ask("delete", "networkpolicy", "neuronfleet-gateway")


def test_over_the_whole_cluster_the_rights_reach_every_namespace_and_no_secret(
    cluster: Cluster, installed: Release
) -> None:
    wide = Release(
        cluster=cluster, namespace=own_namespace(cluster), values={}, file=installed.file
    )
    made = [
        one
        for one in render({"crd": {"install": False}}, namespace=wide.namespace)
        if "Role" in one["kind"] or one["kind"] == "ServiceAccount"
    ]
    cluster.apply(*made)
    try:
        assert may(wide, "controller", "kube-system", "patch", "deployments.apps")
        assert may(wide, "gateway", "kube-system", "list", "endpointslices.discovery.k8s.io")
        for part in PARTS:
            assert not may(wide, part, "kube-system", "get", "secrets")
            assert not may(wide, part, "kube-system", "create", "leases.coordination.k8s.io")
            assert not may(wide, part, "", "delete", "nodes")
        assert may(wide, "controller", "", "patch", "nodes")
        assert not may(wide, "gateway", "", "patch", "nodes")
    finally:
        named = [one["metadata"]["name"] for one in made if one["kind"].startswith("Cluster")]
        cluster.kubectl("delete", WIDE, *sorted(set(named)), "--ignore-not-found")
        cluster.kubectl("delete", "namespace", wide.namespace, "--wait=false")


def test_clients_are_answered_through_the_service(installed: Release) -> None:
    service = f"{RELEASE}-gateway"
    address = installed.cluster.get("service", service, "-n", installed.namespace)
    url = f"http://{address['spec']['clusterIP']}/v1/models"
    client = pod("client", arguments=["fetch", url], restart="Never")
    client["metadata"]["labels"] = {"neuronfleet.dev/client": "true"}
    installed.cluster.apply(client, namespace=installed.namespace)

    def ended() -> bool:
        found = installed.cluster.get("pod", "client", "-n", installed.namespace)
        return found["status"]["phase"] in ("Succeeded", "Failed")

    installed.cluster.wait_for(ended, "the client's answer")
    said = installed.cluster.kubectl("logs", "client", "-n", installed.namespace)
    assert said.startswith("status 200")
    assert json.loads(said.partition("\n")[2])["object"] == "list"


# A release that changes and goes


def test_an_upgrade_rolls_out_what_changed_and_a_rollback_takes_it_back(release: Release) -> None:
    release.install()
    before = {part: release.template(part) for part in PARTS}

    release.install(gateway={"idleSeconds": 120})
    assert release.template("gateway") != before["gateway"]
    assert release.template("controller") == before["controller"]
    release.rolled_out("gateway")
    settings = release.cluster.get("configmap", f"{RELEASE}-gateway", "-n", release.namespace)
    assert "idleTimeout: 120s" in settings["data"]["gateway.yaml"]

    release.helm("rollback", RELEASE, "1")
    assert {part: release.template(part) for part in PARTS} == before
    for part in PARTS:
        release.rolled_out(part)
    assert running(live(release.get("pods", "-l", OURS)))


def live(pods: list[Object]) -> list[Object]:
    return [one for one in pods if "deletionTimestamp" not in one["metadata"]]


def test_values_that_will_not_do_change_nothing(release: Release) -> None:
    release.install()
    before = release.versions()

    with pytest.raises(ClusterError, match="/gateway/idleSeconds"):
        release.install(gateway={"idleSeconds": -1})

    assert release.versions() == before


def test_uninstall_leaves_the_crd_and_the_fleets_and_two_leases(release: Release) -> None:
    cluster, home = release.cluster, release.namespace
    release.install(controller={"replicas": 1}, gateway={"replicas": 1})
    cluster.kubectl("wait", "--for=condition=Established", f"crd/{CRD}", "--timeout=30s")
    for part in PARTS:
        release.rolled_out(part)
    cluster.apply(document(mode="Advisory") | {"metadata": {"name": "kept", "namespace": home}})

    said = release.helm("uninstall", RELEASE)

    assert "kept due to the resource policy" in said
    assert cluster.find("crd", CRD) is not None
    assert cluster.find("servingfleet", "kept", "-n", home) is not None
    assert not release.get(KINDS, "-l", OURS)
    wide = cluster.get(WIDE)["items"]
    assert not [one for one in wide if one["metadata"]["name"].startswith(home)]
    cluster.wait_for(lambda: not release.get("pods", "-l", OURS), "its pods are gone", timeout=90)
    assert {one["metadata"]["name"] for one in release.get("leases")} <= LEASES


def test_the_crd_is_taken_up_again_and_left_where_it_is_no_longer_wanted(release: Release) -> None:
    quiet = {part: {"replicas": 1} for part in PARTS}
    release.install(**quiet)
    release.helm("uninstall", RELEASE)
    release.install(**quiet)

    release.install(**quiet, crd={"install": False})

    assert release.cluster.find("crd", CRD) is not None
