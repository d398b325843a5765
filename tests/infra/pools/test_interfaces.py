from dataclasses import replace

import pytest
from moto.ec2.models.instance_types import INSTANCE_TYPES

from neuronfleet.infra.pools.interfaces import Interface, Kind, interfaces
from neuronfleet.infra.settings import offers
from neuronfleet.infra.settings.offers import Offer
from neuronfleet.serving.api.problems import SpecError


def offer(name: str) -> Offer:
    found = offers.find(name)
    assert found is not None
    return found


def with_efa() -> list[str]:
    return [name for name in offers.neuron_types() if offer(name).efa_interfaces]


@pytest.mark.parametrize("name", with_efa())
def test_a_node_has_every_efa_interface_that_ec2_records_for_its_type(name: str) -> None:
    recorded = INSTANCE_TYPES[name]["NetworkInfo"]["EfaInfo"]["MaximumEfaInterfaces"]

    kinds = [one.kind for one in interfaces(offer(name), efa=True)]
    assert kinds.count(Kind.EFA) == recorded


@pytest.mark.parametrize("name", with_efa())
def test_interfaces_fit_the_type_and_stand_in_places_of_their_own(name: str) -> None:
    cards = INSTANCE_TYPES[name]["NetworkInfo"]["NetworkCards"]
    room = {card["NetworkCardIndex"]: card["MaximumNetworkInterfaces"] for card in cards}
    found = interfaces(offer(name), efa=True)
    places = [(one.card, one.device) for one in found]

    assert len(set(places)) == len(places)
    for card in {one.card for one in found}:
        devices = sorted(one.device for one in found if one.card == card)
        assert devices == list(range(len(devices)))
        assert len(devices) <= room[card]


@pytest.mark.parametrize(
    ("name", "efa"),
    [(name, False) for name in offers.neuron_types()] + [(name, True) for name in with_efa()],
)
def test_exactly_one_interface_has_an_address_and_it_is_the_primary_one(
    name: str, efa: bool
) -> None:
    found = interfaces(offer(name), efa=efa)

    addressed = [one for one in found if one.kind is Kind.ENA]
    assert addressed == [Interface(card=0, device=0, kind=Kind.ENA)] == list(found[:1])


def test_without_efa_a_node_has_one_interface() -> None:
    assert len(interfaces(offer("trn2.3xlarge"), efa=False)) == 1
    assert len(interfaces(offer("trn2.48xlarge"), efa=False)) == 1


def test_a_type_without_efa_is_refused_it() -> None:
    with pytest.raises(SpecError, match=r"efa = true, must be false on inf2\.48xlarge"):
        interfaces(offer("inf2.48xlarge"), efa=True)


def test_more_efa_than_cards_is_refused_and_not_stacked() -> None:
    with pytest.raises(SpecError, match="17 EFA interfaces on 16 cards"):
        interfaces(replace(offer("trn2.48xlarge"), efa_interfaces=17), efa=True)
