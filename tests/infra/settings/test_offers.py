from pathlib import Path

import pytest

from neuronfleet.infra.settings import offers
from neuronfleet.serving.api.hardware import catalog
from tools import build_offers


@pytest.mark.parametrize(
    ("name", "vcpus", "cards", "efa", "disks"),
    [
        ("inf2.xlarge", 4, 1, 0, 0),
        ("trn1.2xlarge", 8, 1, 0, 1),
        ("trn1.32xlarge", 128, 8, 8, 4),
        ("trn1n.32xlarge", 128, 16, 16, 4),
        ("trn2.3xlarge", 12, 1, 1, 1),
        ("trn2.48xlarge", 192, 16, 16, 4),
        ("trn2u.48xlarge", 192, 16, 16, 4),
    ],
)
def test_a_type_has_what_ec2_says_of_it(
    name: str, vcpus: int, cards: int, efa: int, disks: int
) -> None:
    offer = offers.find(name)

    assert offer is not None
    found = (offer.vcpus, offer.network_cards, offer.efa_interfaces, offer.store_disks)
    assert found == (vcpus, cards, efa, disks)


def test_trainium_one_is_in_one_zone_of_ohio() -> None:
    offer = offers.find("trn1.32xlarge")

    assert offer is not None
    assert offer.zones["us-east-2"] == ("use2-az3",)


def test_no_region_offers_all_that_the_examples_use() -> None:
    types = [offers.all_types()[name] for name in ("inf2.xlarge", "trn1.2xlarge", "trn2.3xlarge")]

    assert not set.intersection(*(set(offer.zones) for offer in types))


def test_every_offered_zone_is_a_zone_of_its_region() -> None:
    regions = offers.regions()

    for offer in offers.all_types().values():
        for region, zones in offer.zones.items():
            assert set(zones) <= set(regions[region])


def test_offers_and_the_hardware_catalog_agree() -> None:
    for name in offers.neuron_types():
        offer, chip = offers.all_types()[name], catalog()[name]

        assert chip.vcpus in (None, offer.vcpus)
        assert chip.efa_interfaces == offer.efa_interfaces


def test_a_type_that_was_not_recorded_is_none() -> None:
    assert offers.find("trn9.large") is None


def test_general_types_are_no_neuron_types() -> None:
    assert "m7i.large" in offers.all_types()
    assert "m7i.large" not in offers.neuron_types()


def test_the_file_is_what_the_recording_says() -> None:
    assert (Path(offers.__file__).with_name(offers.FILE)).read_text() == offers.dump(
        build_offers.document()
    )
