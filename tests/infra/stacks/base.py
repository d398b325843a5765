"""The stacks that every other stands on, of the full example and of variants of it."""

import tempfile
from dataclasses import replace
from functools import cache
from typing import Any

import aws_cdk as cdk
from aws_cdk import assertions

from neuronfleet.infra.app import flags
from neuronfleet.infra.settings.model import (
    Admin,
    ExistingCluster,
    ExistingNetwork,
    NewCluster,
    NewNetwork,
    Settings,
)
from neuronfleet.infra.stacks.build import BuildStack
from neuronfleet.infra.stacks.cluster import ClusterStack
from neuronfleet.infra.stacks.data import DataStack
from neuronfleet.infra.stacks.network import NetworkStack
from tests.infra import examples

Template = dict[str, Any]
Resources = dict[str, dict[str, Any]]
ADMIN = Admin(arn="role/ClusterAdmin")
OFFICE = "203.0.113.0/24"
ZONES = ("use2-az1", "use2-az2", "use2-az3")
STANDING = ExistingNetwork(
    vpc_id="vpc-0123456789abcdef0",
    cidr="10.0.0.0/16",
    subnets={zone: f"subnet-0000000000000000{place}" for place, zone in enumerate(ZONES)},
)
THERE = ExistingCluster(
    name="there",
    version="1.35",
    endpoint="https://there.example",
    certificate_authority="Y2VydA==",
    security_group_id="sg-0123456789abcdef0",
)
VARIANTS: dict[str, dict[str, Any]] = {
    "full": {},
    "a-nat-a-zone": {"network": NewNetwork(nat_gateways=3)},
    "standing-network": {"network": STANDING},
    "standing-network-endpoints": {"network": replace(STANDING, endpoints=True)},
    "office": {"cluster": NewCluster(public_cidrs=(OFFICE,), admins=(ADMIN,))},
    "two-admins": {"cluster": NewCluster(admins=(ADMIN, Admin(arn="user/eve")))},
    "standing-cluster": {"network": STANDING, "cluster": THERE},
    "no-images": {"images": ()},
}


def settings(variant: str) -> Settings:
    """The full example, changed."""
    return replace(examples.settings(examples.FULL), **VARIANTS[variant])


@cache
def _templates(variant: str) -> dict[str, Template]:
    wanted = settings(variant)
    with tempfile.TemporaryDirectory() as folder:
        app = cdk.App(analytics_reporting=False, outdir=folder, context=dict(flags()))
        env = cdk.Environment(region=wanted.region)
        network = NetworkStack(app, "Network", settings=wanted, env=env)
        data = DataStack(app, "Data", settings=wanted, env=env)
        build = BuildStack(app, "Build", settings=wanted, env=env, data=data.facts)
        cluster = ClusterStack(app, "Cluster", settings=wanted, env=env, network=network.facts)
        stacks = (network, data, build, cluster)
        found = {
            stack.stack_name: dict(assertions.Template.from_stack(stack).to_json())
            for stack in stacks
        }
        anything = assertions.Match.any_value()
        for stack in stacks:
            # `cdk synth --strict` would end with it.
            assert not assertions.Annotations.from_stack(stack).find_warning("*", anything)
    return found


def template(stack: str, variant: str = "full") -> Template:
    """One stack's template. Callers only read it."""
    return _templates(variant)[stack]


def resources(stack: str, kind: str, variant: str = "full") -> Resources:
    """Resources of a type, by logical id."""
    listed = template(stack, variant).get("Resources", {})
    return {name: one for name, one in listed.items() if one["Type"] == kind}


def properties(stack: str, kind: str, variant: str = "full") -> list[dict[str, Any]]:
    """Properties of every resource of a type."""
    return [one.get("Properties", {}) for one in resources(stack, kind, variant).values()]


def only(stack: str, kind: str, variant: str = "full") -> dict[str, Any]:
    """Properties of the one resource of a type."""
    (found,) = properties(stack, kind, variant)
    return found
