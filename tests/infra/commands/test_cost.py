"""What a deployment costs a month: arithmetic by hand, and unknown never taken for nothing."""

import json
from pathlib import Path

import pytest

from neuronfleet.infra.commands import tariff
from neuronfleet.infra.commands.bill import Bill, Line
from neuronfleet.infra.commands.cost import cost, document
from neuronfleet.infra.settings import parse
from neuronfleet.serving.api import prices
from tests import schema
from tests.infra.commands.accounts import settings

EXAMPLE = Path(__file__).parents[3] / "examples/infra/us-east-2.yaml"


def example() -> Bill:
    return cost(parse.load(EXAMPLE), prices.newest())


def of(bill: Bill, what: str) -> Line:
    (found,) = [line for line in bill.lines if line.what.startswith(what)]
    return found


def test_the_fixed_costs_are_there_though_nothing_runs() -> None:
    bill = example()

    assert of(bill, "EKS control plane").idle_usd == pytest.approx(73.0)
    assert of(bill, "NAT gateways").idle_usd == pytest.approx(0.045 * 730)
    assert of(bill, "interface endpoints").idle_usd == pytest.approx(12 * 3 * 0.01 * 730)
    assert of(bill, "KMS key of data").idle_usd == pytest.approx(1.0)
    assert of(bill, "system nodes").idle_usd == pytest.approx(2 * 0.1008 * 730)
    assert of(bill, "system nodes").most_usd == pytest.approx(4 * 0.1008 * 730)


def test_a_pool_costs_its_nodes_and_their_volumes_at_its_maximum_and_nothing_idle() -> None:
    bill = example()

    assert bill.idle(pool="inf2").usd == 0
    assert bill.most(pool="inf2").usd == pytest.approx(8 * (0.7582 * 730 + 200 * 0.08 + 375 * 0.04))
    assert not bill.most(pool="inf2").unknown


def test_a_block_is_paid_whole_whether_nodes_run_or_not() -> None:
    bill = example()

    assert of(bill, "1 trn2.48xlarge").idle_usd == pytest.approx(35.76 * 168)
    assert of(bill, "1 trn2.48xlarge").idle_usd == of(bill, "1 trn2.48xlarge").most_usd
    assert "paid up front for 168 h" in of(bill, "1 trn2.48xlarge").source


def test_a_block_longer_than_a_month_is_a_month_s_part_of_it() -> None:
    long = settings(("2027-03-08T11:30:00Z", "2027-05-10T11:30:00Z"), ("most: 1\n", PRICED))

    line = of(cost(long, prices.newest()), "1 trn2.48xlarge")

    assert line.idle_usd == pytest.approx(35.76 * 730)


PRICED = "most: 1\n    usdPerHour: 35.76\n"


def test_an_unknown_price_is_unknown_in_line_pool_stack_and_sum() -> None:
    bill = cost(settings(), prices.newest())
    stack = "fleet-Pool-block"

    assert of(bill, "1 trn2.48xlarge").idle_usd is None
    assert bill.idle(pool="block").unknown == ("1 trn2.48xlarge, capacity-block",)
    assert str(bill.idle(stack=stack)).startswith("at least $")
    assert "1 trn2.48xlarge, capacity-block" in bill.most().unknown


def test_what_goes_by_use_is_in_no_sum_and_is_named() -> None:
    bill = example()

    assert of(bill, "data through NAT").usd == 0.045
    assert of(bill, "data through NAT").idle_usd is None
    assert "data through NAT" in bill.idle().unknown
    assert of(bill, "Managed Prometheus").usd is None


def test_a_spot_price_is_not_made_of_the_on_demand_one() -> None:
    bill = example()

    assert of(bill, "0 to 4 trn1.2xlarge, spot").usd is None
    assert bill.idle(pool="trn1-spot").usd == 0
    assert bill.most(pool="trn1-spot").unknown


def test_a_spot_price_of_another_region_is_not_this_one_s() -> None:
    rows = [
        {
            "instance_type": "trn1.2xlarge",
            "capacity_type": "spot",
            "region": region,
            "usd_per_hour": usd,
            "source": "seen",
            "as_of": "2026-11-30",
        }
        for region, usd in (("us-west-2", 0.4), ("us-east-2", 0.6))
    ]
    text = json.dumps({"date": "2026-11-30", "prices": rows[:1]})
    both = json.dumps({"date": "2026-11-30", "prices": rows})
    spot = "0 to 4 trn1.2xlarge, spot"

    assert of(cost(parse.load(EXAMPLE), prices.parse(text, "one")), spot).usd is None
    assert of(cost(parse.load(EXAMPLE), prices.parse(both, "two")), spot).usd == 0.6


def test_sums_by_stack_make_the_whole() -> None:
    bill = example()

    for sums in (bill.idle, bill.most):
        parts = [sums(stack=stack).usd for stack in bill.stacks()]
        assert sum(parts) == pytest.approx(sums().usd)


def test_prices_of_a_region_that_is_not_recorded_are_unknown_and_say_what_they_are_elsewhere() -> (
    None
):
    far = settings(
        ("region: us-east-2", "region: ap-south-1"),
        ("use2-az1", "aps1-az1"),
        ("use2-az3", "aps1-az3"),
    )

    bill = cost(far, prices.newest())

    assert of(bill, "NAT gateways").idle_usd is None
    assert "unknown in ap-south-1: 0.045 in us-east-1" in of(bill, "NAT gateways").source
    assert of(bill, "EKS control plane").idle_usd == pytest.approx(73.0)
    assert of(bill, "0 to 8 inf2.xlarge").usd is None


def test_a_region_with_prices_of_its_own_takes_them() -> None:
    there = settings(
        ("region: us-east-2", "region: sa-east-1"),
        ("use2-az1", "sae1-az1"),
        ("use2-az3", "sae1-az3"),
    )

    bill = cost(there, prices.newest())

    assert of(bill, "NAT gateways").idle_usd == pytest.approx(0.093 * 730)
    assert of(bill, "system nodes").idle_usd == pytest.approx(2 * 0.16065 * 730)


def test_a_reservation_costs_what_its_instances_would_running_or_not() -> None:
    held = settings(
        ("capacity: capacity-block", "capacity: reserved"),
        ("trn2.48xlarge", "trn1.32xlarge"),
        ("count: 1", "count: 2"),
    )

    line = of(cost(held, prices.newest()), "2 trn1.32xlarge")

    assert line.idle_usd == pytest.approx(2 * 21.5 * 730)


def test_an_existing_network_and_cluster_cost_nothing_more() -> None:
    theirs = settings(
        (
            "cluster:\n  admins: [role/ClusterAdmin]",
            "network:\n  existing: {vpcId: vpc-0123456789abcdef0, cidr: 10.0.0.0/16, "
            "subnets: {use2-az1: subnet-0123456789abcdef0}}\n"
            'cluster:\n  existing: {name: theirs, version: "1.35", certificateAuthority: QUJD, '
            "endpoint: 'https://abc.example.com', securityGroupId: sg-0123456789abcdef0}",
        )
    )

    bill = cost(theirs, prices.newest())

    assert not [s for s in bill.stacks() if s.endswith(("-Network", "-Cluster"))]


def test_two_bills_are_the_same_and_as_the_schema_says() -> None:
    first, second = (document(example(), prices.newest()) for _ in range(2))

    schema.check(first, "infra-cost")
    assert first == second
    assert first["total"]["idle"]["at_least"]


def test_every_price_of_a_service_has_a_source_and_a_day_and_is_above_nothing() -> None:
    for one in tariff.table():
        assert one.usd > 0
        assert one.source
        assert one.as_of <= tariff.dated()
        assert one.regions
