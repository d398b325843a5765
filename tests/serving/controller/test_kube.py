"""Calls to the API server, against one that answers as it is told."""

import json
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client import ApiClient, Configuration

from neuronfleet.serving.controller import kube
from neuronfleet.serving.controller.acts import Annotate, Apply, Delete, DeletePod, Scale
from neuronfleet.serving.controller.kube import Kube, KubeError


@dataclass(slots=True)
class Api:
    """A scripted API server."""

    statuses: list[int] = field(default_factory=list)
    """Statuses of the next answers; 200 when there is none left."""
    seen: list[web.Request] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    calls: list[tuple[str, str, int]] = field(default_factory=list)
    answer: dict[str, Any] = field(default_factory=dict)

    async def handle(self, request: web.Request) -> web.Response:
        self.seen.append(request)
        text = await request.text()
        self.bodies.append(json.loads(text) if text else None)
        status = self.statuses.pop(0) if self.statuses else 200
        if status == 0:
            assert request.transport is not None
            request.transport.close()
        body = self.answer if status < 300 else {"message": f"refused with {status}"}
        return web.json_response(body, status=status)


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
async def client(api: Api, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Kube]:
    monkeypatch.setattr(kube, "_FIRST_PAUSE_S", 0.001)
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", api.handle)
    server = TestServer(app)
    await server.start_server()
    told = ApiClient(Configuration(host=str(server.make_url("")).rstrip("/")))
    yield Kube(told, count=lambda *call: api.calls.append(call), rng=random.Random(1))
    await told.close()  # type: ignore[no-untyped-call]
    await server.close()


MANIFEST = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}


async def test_a_manifest_is_applied_server_side_under_our_own_name(client: Kube, api: Api) -> None:
    await client.perform("ns", Apply(manifest=MANIFEST, ours=True))

    (request,) = api.seen
    assert request.method == "PATCH"
    assert request.path == "/apis/apps/v1/namespaces/ns/deployments/d"
    assert request.query["fieldManager"] == "neuronfleet"
    assert request.query["force"] == "true"
    assert request.headers["Content-Type"] == "application/apply-patch+yaml"
    assert api.bodies == [MANIFEST]


@pytest.mark.parametrize("status", [0, 409, 429, 500, 503])
async def test_conflicts_throttling_and_loss_are_tried_again(
    client: Kube, api: Api, status: int
) -> None:
    api.statuses = [status, status]

    await client.perform("ns", Scale(name="d", replicas=2))

    assert len(api.seen) == 3
    assert [call[2] for call in api.calls] == [status, status, 200]


async def test_what_is_refused_for_good_is_not_tried_again(client: Kube, api: Api) -> None:
    api.statuses = [403]

    with pytest.raises(KubeError, match="403 refused with 403") as caught:
        await client.perform("ns", Scale(name="d", replicas=2))

    assert caught.value.status == 403
    assert len(api.seen) == 1


async def test_after_five_attempts_the_error_is_the_caller_s(client: Kube, api: Api) -> None:
    api.statuses = [503] * 9

    with pytest.raises(KubeError, match="503"):
        await client.perform("ns", Apply(manifest=MANIFEST, ours=True))

    assert len(api.seen) == 5


async def test_a_pod_is_deleted_only_if_it_is_the_one_that_was_seen(client: Kube, api: Api) -> None:
    await client.perform("ns", DeletePod(pod="p", uid="u-1", why="its node is going"))

    assert api.bodies == [{"preconditions": {"uid": "u-1"}}]


@pytest.mark.parametrize(
    "act",
    [
        DeletePod(pod="p", uid="u", why=""),
        Delete(kind="Service", name="s"),
        Annotate(pod="p", annotations={"a": None}),
    ],
)
async def test_what_is_gone_already_is_no_error(client: Kube, api: Api, act: Any) -> None:
    api.statuses = [404]

    await client.perform("ns", act)

    assert len(api.seen) == 1


async def test_status_and_events_go_where_they_belong(client: Kube, api: Api) -> None:
    await client.patch_status("ns", "f", {"desired": 2, "load": None})
    await client.post_event("ns", {"reason": "Scaled"})

    status, event = api.seen
    assert status.path == "/apis/neuronfleet.dev/v1alpha1/namespaces/ns/servingfleets/f/status"
    assert status.headers["Content-Type"] == "application/merge-patch+json"
    assert api.bodies[0] == {"status": {"desired": 2, "load": None}}
    assert (event.method, event.path) == ("POST", "/api/v1/namespaces/ns/events")


async def test_a_resync_lists_names_and_not_objects(client: Kube, api: Api) -> None:
    api.answer = {"items": [{"metadata": {"uid": "a"}}, {"metadata": {"uid": "b"}}]}

    found = await client.uids("Pod", "app=x", ["a", "b"])

    assert found == {"a", "b"}
    assert "PartialObjectMetadataList" in api.seen[0].headers["Accept"]
    assert api.seen[0].query["labelSelector"] == "app=x"
    assert [one.path for one in api.seen] == [
        "/api/v1/namespaces/a/pods",
        "/api/v1/namespaces/b/pods",
    ]


async def test_the_gateway_s_pods_are_found_by_their_service(client: Kube, api: Api) -> None:
    ends = [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"]}]
    api.answer = {"items": [{"endpoints": ends}, {"endpoints": None}]}

    assert await client.addresses("ns", "gw") == ["10.0.0.1", "10.0.0.2"]


async def test_an_object_that_is_not_known_as_ours_is_not_taken_over(
    client: Kube, api: Api
) -> None:
    api.statuses = [409]

    with pytest.raises(KubeError, match="409"):
        await client.perform("ns", Apply(manifest=MANIFEST, ours=False))

    (request,) = api.seen
    assert request.query["force"] == "false"


async def test_an_event_that_was_told_already_is_no_error(client: Kube, api: Api) -> None:
    api.statuses = [0, 409]

    await client.post_event("ns", {"kind": "Event", "metadata": {"name": "f.1"}})

    assert [call[2] for call in api.calls] == [0, 409]


@pytest.mark.parametrize(
    ("items", "uids"), [(None, set()), ([{"metadata": {"uid": "u-1"}}], {"u-1"})]
)
async def test_a_list_of_nothing_may_be_null(
    client: Kube, api: Api, items: Any, uids: set[str]
) -> None:
    api.answer = {"items": items}

    assert await client.uids("Pod", "a=b", ["models"]) == uids
    assert api.seen[0].path == "/api/v1/namespaces/models/pods"
