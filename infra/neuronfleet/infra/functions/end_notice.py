"""Tell fleets when their capacity block goes: EC2's notice into reservation.endsAt.

Sent inline as a Lambda function: standard library and boto3 alone.
"""

import base64
import json
import logging
import os
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib import error, request

import boto3
from botocore.model import ServiceId
from botocore.signers import RequestSigner

log = logging.getLogger(__name__)
log.setLevel(logging.INFO)

ATTEMPTS = 3
GONE = 404
STALE = (409, 422)
"""A test of the patch failed: somebody wrote in between."""
TIMEOUT_S = 10


def handler(event: Mapping[str, Any], context: object) -> dict[str, Any]:
    """Set endsAt on every fleet of the environment; notices of other reservations are ignored.

    Raises:
        RuntimeError: some fleets could not be told; all others were.
    """
    detail = event.get("detail") or {}
    block, expected = detail.get("capacity-reservation-id"), os.environ["RESERVATION"]
    if block != expected:
        log.info("ignored: reservation %s is not %s", block, expected)
        return {"ignored": block}
    lead = timedelta(minutes=int(os.environ["LEAD_MINUTES"]))
    gone = moment(detail["end-date"]) - lead
    api = Api()
    told, failed = {}, []
    for fleet in os.environ["FLEETS"].split(","):
        try:
            told[fleet] = tell(api, fleet, block, gone)
        except error.HTTPError as refused:
            log.exception("fleet %s", fleet)
            failed.append(f"{fleet} (HTTP {refused.code})")
    if failed:
        raise RuntimeError(f"not told: {', '.join(failed)}")
    return told


def moment(text: str) -> datetime:
    """A time with zone; without one it is UTC."""
    found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return found if found.tzinfo else found.replace(tzinfo=UTC)


class Api:
    """The cluster's private endpoint, spoken to as the function's own role."""

    def __init__(self) -> None:
        """Trust the cluster's authority and no other."""
        authority = base64.b64decode(os.environ["AUTHORITY"]).decode()
        self._trust = ssl.create_default_context(cadata=authority)
        self._token = token(os.environ["CLUSTER"], os.environ["AWS_REGION"])

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """The answer.

        Raises:
            HTTPError: the status is not 2xx.
        """
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            headers["Content-Type"] = "application/json-patch+json"
        url = os.environ["ENDPOINT"] + path
        asked = request.Request(url, data=data, headers=headers, method=method)
        with request.urlopen(asked, timeout=TIMEOUT_S, context=self._trust) as answer:
            found: dict[str, Any] = json.load(answer)
            return found


def tell(api: Api, fleet: str, block: str, gone: datetime) -> int:
    """How many variants of one fleet were changed; 0 where all say so already.

    Raises:
        HTTPError: the API refuses, or the fleet changed under each attempt.
    """
    namespace, name = fleet.split("/")
    path = f"/apis/neuronfleet.dev/v1alpha1/namespaces/{namespace}/servingfleets/{name}"
    for attempt in range(1, ATTEMPTS + 1):
        try:
            patch = changes(api.call("GET", path), block, gone)
            if patch:
                api.call("PATCH", f"{path}?fieldManager=neuronfleet-end-notice", patch)
        except error.HTTPError as refused:
            if refused.code == GONE:
                log.warning("fleet %s is not there", fleet)
                return 0
            if refused.code not in STALE or attempt == ATTEMPTS:
                raise
            log.info("fleet %s changed meanwhile, attempt %d", fleet, attempt)
            continue
        log.info("fleet %s: %d variants end at %s", fleet, len(patch) // 2, gone.isoformat())
        return len(patch) // 2
    raise AssertionError("the last attempt returns or raises")


def changes(fleet: Mapping[str, Any], block: str, gone: datetime) -> list[dict[str, Any]]:
    """A JSON patch that holds only while each reservation is as it was read."""
    patch: list[dict[str, Any]] = []
    for index, variant in enumerate(fleet["spec"].get("variants") or ()):
        held = variant.get("reservation") or {}
        ends = held.get("endsAt")
        if held.get("id") != block or (ends is not None and moment(ends) == gone):
            continue
        path = f"/spec/variants/{index}/reservation"
        text = gone.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        patch.append({"op": "test", "path": path, "value": held})
        patch.append({"op": "add", "path": f"{path}/endsAt", "value": text})
    return patch


def token(cluster: str, region: str) -> str:
    """A bearer token of EKS: a presigned GetCallerIdentity, good for a minute; nothing is sent."""
    session = boto3.Session(region_name=region)
    keys = session.get_credentials()
    signer = RequestSigner(ServiceId("STS"), region, "sts", "v4", keys, session.events)
    asked = {
        "method": "GET",
        "url": f"https://sts.{region}.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15",
        "body": {},
        "headers": {"x-k8s-aws-id": cluster},
        "context": {},
    }
    url = signer.generate_presigned_url(asked, "", expires_in=60, region_name=region)
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
