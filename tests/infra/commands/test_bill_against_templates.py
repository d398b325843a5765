"""The bill against what is synthesised: as many of each as are paid for."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from neuronfleet.infra import app
from neuronfleet.infra.commands import assembly, lines, stack_ids
from neuronfleet.infra.commands.assembly import SynthesisedStack
from neuronfleet.infra.commands.bill import HOURS_PER_MONTH, Bill
from neuronfleet.infra.commands.cost import cost
from neuronfleet.infra.commands.destroy_plan import destroy_plan
from neuronfleet.infra.settings import parse
from neuronfleet.infra.settings.model import Settings
from neuronfleet.serving.api import prices

EXAMPLE = Path(__file__).parents[3] / "examples/infra/us-east-2.yaml"


@pytest.fixture(scope="module")
def settings() -> Settings:
    return parse.load(EXAMPLE)


@pytest.fixture(scope="module")
def stacks(
    settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Sequence[SynthesisedStack]:
    folder = tmp_path_factory.mktemp("assembly")
    app.build(settings, outdir=str(folder)).synth()
    return assembly.read(folder)


@pytest.fixture(scope="module")
def bill(settings: Settings) -> Bill:
    return cost(settings, prices.newest())


def count(stacks: Sequence[SynthesisedStack], kind: str) -> int:
    return Counter(one.kind for stack in stacks for one in stack.resources)[kind]


def units(bill: Bill, what: str) -> float:
    (line,) = [line for line in bill.lines if line.what.startswith(what)]
    assert line.idle is not None
    return line.idle / (HOURS_PER_MONTH if line.unit == "hour" else 1)


def test_every_stack_that_is_synthesised_has_its_lines_and_no_other_has(
    stacks: Sequence[SynthesisedStack], bill: Bill
) -> None:
    assert {stack.id for stack in stacks} == set(bill.stacks())


def test_endpoints_gateways_and_addresses_are_as_many(
    stacks: Sequence[SynthesisedStack], bill: Bill, settings: Settings
) -> None:
    gateways = count(stacks, "AWS::EC2::NatGateway")
    endpoints = count(stacks, "AWS::EC2::VPCEndpoint") - 1  # S3's is a gateway, and free

    assert units(bill, "NAT gateways") == gateways
    assert units(bill, "their addresses") == count(stacks, "AWS::EC2::EIP")
    assert endpoints == lines.INTERFACE_ENDPOINTS
    assert units(bill, "interface endpoints") == endpoints * len(settings.zones)


def test_keys_and_alarms_are_as_many(stacks: Sequence[SynthesisedStack], bill: Bill) -> None:
    keys = sum(line.idle or 0 for line in bill.lines if line.what.startswith("KMS key"))

    assert keys == count(stacks, "AWS::KMS::Key")
    assert units(bill, "alarms") == count(stacks, "AWS::CloudWatch::Alarm")
    assert count(stacks, "AWS::CloudWatch::Dashboard") == 0
    assert count(stacks, "AWS::APS::Scraper") == 1


def test_nothing_that_costs_by_the_hour_is_left_out(stacks: Sequence[SynthesisedStack]) -> None:
    paid_by_the_hour = (
        "AWS::ElasticLoadBalancingV2::LoadBalancer",
        "AWS::EC2::Instance",
        "AWS::EC2::TransitGateway",
        "AWS::RDS::DBInstance",
        "AWS::FSx::FileSystem",
        "AWS::Grafana::Workspace",
    )

    assert not [kind for kind in paid_by_the_hour if count(stacks, kind)]


def test_the_plan_of_the_settings_alone_says_what_templates_say(
    stacks: Sequence[SynthesisedStack], settings: Settings
) -> None:
    guessed = destroy_plan(settings, "infra.yaml")
    exact = destroy_plan(settings, "infra.yaml", stacks)

    assert {one.id for one in guessed.stacks} == {one.id for one in exact.stacks}
    assert [one.id for one in guessed.stacks if one.is_protected] == [
        one.id for one in exact.stacks if one.is_protected
    ]
    kept = Counter(one.what.partition(" ")[0] for one in exact.kept)
    assert kept["S3::Bucket"] == sum("bucket" in one.what for one in guessed.kept)
    assert kept["ECR::Repository"] == sum("repository" in one.what for one in guessed.kept)
    assert kept["KMS::Key"] == sum("KMS key" in one.what for one in guessed.kept)


def test_data_is_kept_by_every_template(
    stacks: Sequence[SynthesisedStack], settings: Settings
) -> None:
    holding = ("AWS::S3::Bucket", "AWS::ECR::Repository")
    (data,) = [stack for stack in stacks if stack.id == stack_ids.data(settings)]

    assert data.is_protected
    assert not [
        one
        for stack in stacks
        for one in stack.resources
        if one.kind in holding and not one.is_kept
    ]
