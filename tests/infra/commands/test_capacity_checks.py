"""Offerings, quotas, images, reservations and blocks on sale, as preflight asks for them."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from moto import mock_aws

from neuronfleet.infra.commands.checks import (
    images,
    offerings,
    offers,
    prices,
    quotas,
    reservations,
)
from neuronfleet.infra.commands.finding import Finding, Verdict
from tests.infra.commands.accounts import NOW, Answers, Moto, settings

HOURS = 168
START, END = datetime(2027, 3, 1, 11, 30, tzinfo=UTC), datetime(2027, 3, 8, 11, 30, tzinfo=UTC)
RESERVED: dict[str, Any] = {
    "CapacityReservationId": "cr-0123456789abcdef0",
    "InstanceType": "trn2.48xlarge",
    "AvailabilityZoneId": "use2-az1",
    "TotalInstanceCount": 1,
    "ReservationType": "capacity-block",
    "State": "scheduled",
    "StartDate": START,
    "EndDate": END,
}
ZONES = [{"ZoneName": "us-east-2c", "ZoneId": "use2-az1", "State": "available"}]


@pytest.fixture
def moto() -> Iterator[Moto]:
    with mock_aws():
        yield Moto()


def test_every_type_is_asked_for_by_zone_id(moto: Moto) -> None:
    found = list(offerings.findings(settings(), moto))

    assert [one.subject for one in found] == [
        "pools[0] inf2.xlarge",
        "pools[1] trn2.48xlarge",
        "cluster.systemNodes m7i.large",
    ]
    assert {one.verdict for one in found} == {Verdict.FINE}


def test_a_zone_that_does_not_offer_a_type_would_fail_and_says_which_do() -> None:
    aws = Answers()
    rows = [
        {"InstanceType": name, "Location": zone}
        for name, zone in (
            ("inf2.xlarge", "use2-az1"),
            ("trn2.48xlarge", "use2-az1"),
            ("m7i.large", "use2-az1"),
            ("m7i.large", "use2-az3"),
        )
    ]
    aws.answer("ec2", "describe_instance_type_offerings", {"InstanceTypeOfferings": rows}, None)

    inf2, trn2, system = offerings.findings(settings(), aws)

    assert inf2.verdict is Verdict.FAILS
    assert inf2.said == "is not offered in use2-az3; must be in use2-az1"
    assert (trn2.verdict, system.verdict) == (Verdict.FINE, Verdict.FINE)


def quota(value: float) -> dict[str, Any]:
    return {"Quota": {"Value": value}}


def test_a_quota_below_what_pools_want_at_most_would_fail() -> None:
    aws, has = Answers(), dict[str, int]()
    asked = {"ServiceCode": "ec2", "QuotaCode": "L-1945791B"}
    aws.answer("service-quotas", "get_service_quota", quota(16.0), asked)
    aws.answer("service-quotas", "get_service_quota", quota(64.0), None)

    inf, standard = quotas.findings(settings(), aws, has)

    assert inf.verdict is Verdict.FAILS
    assert inf.said.startswith("16 vCPUs, must be 32 for pools[0] 32: request it")
    assert standard.verdict is Verdict.FINE
    assert has == {"L-1945791B": 16, "L-1216C47A": 64}


def test_a_quota_that_nobody_raised_is_awss_default() -> None:
    aws, has = Answers(), dict[str, int]()
    aws.refuse("service-quotas", "get_service_quota", "NoSuchResourceException")
    aws.answer("service-quotas", "get_aws_default_service_quota", quota(0.0), None)
    aws.answer("service-quotas", "get_service_quota", quota(64.0), None)

    list(quotas.findings(settings(), aws, has))

    assert has["L-1945791B"] == 0


def test_a_quota_that_may_not_be_read_is_unknown_and_not_written() -> None:
    aws, has = Answers(), dict[str, int]()
    aws.refuse("service-quotas", "get_service_quota", "AccessDeniedException")
    aws.answer("service-quotas", "get_service_quota", quota(64.0), None)

    inf, _ = quotas.findings(settings(), aws, has)

    assert inf.verdict is Verdict.UNKNOWN
    assert "L-1945791B" not in has


def test_an_image_is_asked_for_by_its_release_and_the_version_of_kubernetes() -> None:
    aws = Answers()
    name = (
        "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/neuron/"
        "amazon-eks-node-al2023-x86_64-neuron-1.35-v20260403/image_id"
    )
    found = {"Parameter": {"Value": "ami-0123456789abcdef0"}}
    aws.answer("ssm", "get_parameter", found, {"Name": name})
    aws.refuse("ssm", "get_parameter", "ParameterNotFound")

    good, bad = images.findings(settings(), aws)

    assert good.verdict is Verdict.FINE
    assert "ami-0123456789abcdef0, of pools[0]" in good.said
    assert bad.verdict is Verdict.FAILS
    assert bad.said.startswith("of pools[1], is no release")


def test_the_release_of_system_nodes_is_asked_for_among_the_standard_images() -> None:
    aws = Answers()
    pinned = settings(("  admins: [", "  systemNodes: {amiRelease: 1.35.2-20261105}\n  admins: ["))
    for _ in range(2):
        aws.refuse("ssm", "get_parameter", "AccessDeniedException")
    name = images.parameter("1.35", "standard", "v20261105")
    aws.answer("ssm", "get_parameter", {"Parameter": {"Value": "ami-1"}}, {"Name": name})

    *_, system = images.findings(pinned, aws)

    assert system.verdict is Verdict.FINE


def reservation(**changes: Any) -> list[Finding]:
    aws = Answers()
    asked = {"CapacityReservationIds": ["cr-0123456789abcdef0"]}
    found = {"CapacityReservations": [RESERVED | changes]}
    aws.answer("ec2", "describe_capacity_reservations", found, asked)
    return list(reservations.findings(settings(), aws, NOW, HOURS))


def test_a_reservation_as_settings_say_is_fine() -> None:
    (found,) = reservation()

    assert found.verdict is Verdict.FINE
    assert "scheduled, 1 trn2.48xlarge" in found.said


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"InstanceType": "trn1.32xlarge"}, "pools[1].block.instanceType"),
        ({"AvailabilityZoneId": "use2-az2"}, "pools[1].block.zone"),
        ({"TotalInstanceCount": 2}, "pools[1].block.count"),
        ({"ReservationType": "default"}, "pools[1].block.id"),
        ({"StartDate": END}, "pools[1].block.startsAt"),
        ({"EndDate": START}, "pools[1].block.endsAt"),
        ({"State": "cancelled"}, "pools[1].block"),
    ],
)
def test_a_reservation_that_is_otherwise_would_fail_by_its_field(
    changes: dict[str, Any], path: str
) -> None:
    (found,) = reservation(**changes)

    assert found.verdict is Verdict.FAILS
    assert found.subject == path


def test_a_block_that_is_not_paid_yet_is_unknown() -> None:
    (found,) = reservation(State="payment-pending")

    assert found.verdict is Verdict.UNKNOWN


def offer(fee: str, day: int) -> dict[str, Any]:
    return {
        "CapacityBlockOfferingId": f"cbr-{day}",
        "AvailabilityZone": "us-east-2c",
        "StartDate": datetime(2027, 2, day, 11, 30, tzinfo=UTC),
        "EndDate": datetime(2027, 2, day + 7, 11, 30, tzinfo=UTC),
        "UpfrontFee": fee,
    }


def test_where_there_is_no_reservation_the_cheapest_blocks_on_sale_are_priced_by_the_hour() -> None:
    aws = Answers()
    aws.refuse("ec2", "describe_capacity_reservations", "InvalidCapacityReservationId.NotFound")
    aws.answer("ec2", "describe_availability_zones", {"AvailabilityZones": ZONES}, None)
    on_sale = {"CapacityBlockOfferings": [offer("6720.00", 9), offer("6007.68", 8)]}
    aws.answer("ec2", "describe_capacity_block_offerings", on_sale, None)

    missing, first, second = reservations.findings(settings(), aws, NOW, HOURS)

    assert missing.verdict is Verdict.FAILS
    assert "is none of this account's" in missing.said
    assert first.verdict is Verdict.NOTE
    assert first.said == (
        "cbr-8: 1 in use2-az1, 2027-02-08T11:30Z to 2027-02-15T11:30Z, "
        "$6,007.68 up front, usdPerHour 35.76"
    )
    assert "usdPerHour 40.00" in second.said


def test_a_pool_that_is_yet_to_be_reserved_is_searched_for_and_never_found_fine() -> None:
    aws = Answers()
    aws.answer("ec2", "describe_availability_zones", {"AvailabilityZones": ZONES}, None)
    aws.answer("ec2", "describe_capacity_block_offerings", {"CapacityBlockOfferings": []}, None)
    draft = settings(("cr-0123456789abcdef0", "cr-00000000000000000"))

    (found,) = reservations.findings(draft, aws, NOW, HOURS)

    assert found.verdict is Verdict.FAILS
    assert found.said == "no block of 1 trn2.48xlarge for 168 h is on sale in 8 weeks"


@pytest.mark.parametrize(
    ("hours", "sold"), [(1, 24), (24, 24), (25, 48), (336, 336), (337, 504), (505, 672)]
)
def test_blocks_are_sold_by_the_day_to_14_days_and_by_the_week_beyond(
    hours: int, sold: int
) -> None:
    assert offers.sold_hours(hours) == sold


def product(usd: str, unit: str = "Hrs") -> str:
    dimension = {"unit": unit, "pricePerUnit": {"USD": usd}}
    return json.dumps({"terms": {"OnDemand": {"a": {"priceDimensions": {"b": dimension}}}}})


def test_an_on_demand_pool_s_price_is_asked_of_the_price_list() -> None:
    aws = Answers()
    listed = [product("0.7582"), product("0.0000"), product("9", "Quantity")]
    aws.answer("pricing", "get_products", {"PriceList": listed}, None)

    (found,) = prices.findings(settings(), aws, NOW)

    assert found.verdict is Verdict.NOTE
    assert found.said == "inf2.xlarge $0.7582 an hour on demand in us-east-2"


def test_a_price_that_is_not_listed_or_may_not_be_asked_is_unknown_and_stops_nothing() -> None:
    aws = Answers()
    aws.answer("pricing", "get_products", {"PriceList": [product("0.0000")]}, None)
    aws.refuse("pricing", "get_products", "AccessDeniedException")

    (none,) = prices.findings(settings(), aws, NOW)
    (denied,) = prices.findings(settings(), aws, NOW)

    assert none.said == "inf2.xlarge has no on-demand price in us-east-2"
    assert denied.verdict is Verdict.NOTE
    assert denied.said == "unknown: no permission for GetProducts"


def test_a_spot_pool_s_price_is_that_of_the_moment_in_its_zones() -> None:
    aws = Answers()
    zones = [*ZONES, {"ZoneName": "us-east-2b", "ZoneId": "use2-az2", "State": "available"}]
    rows = [
        {"AvailabilityZone": zone, "SpotPrice": usd}
        for zone, usd in (("us-east-2c", "0.21"), ("us-east-2b", "0.11"))
    ]
    aws.answer("ec2", "describe_availability_zones", {"AvailabilityZones": zones}, None)
    aws.answer("ec2", "describe_spot_price_history", {"SpotPriceHistory": rows}, None)
    spot = settings(("capacity: on-demand", "capacity: spot"))

    (found,) = prices.findings(spot, aws, NOW)

    assert found.said == "inf2.xlarge spot at this moment: $0.21 in use2-az1"
