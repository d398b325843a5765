"""Network interfaces of a node: one for packets, and EFA interfaces as many as its type has."""

from dataclasses import dataclass
from enum import StrEnum

from neuronfleet.infra.settings.offers import Offer
from neuronfleet.serving.api.problems import SpecError


class Kind(StrEnum):
    """What an interface carries, in EC2's words."""

    ENA = "interface"
    """Packets; it has an IP address."""
    EFA = "efa-only"
    """EFA alone; it takes no IP address of the subnet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """Where one interface is attached."""

    card: int
    device: int
    kind: Kind


def interfaces(offer: Offer, efa: bool) -> tuple[Interface, ...]:
    """The interfaces of a type, the primary one first.

    The EC2 User Guide's layout for several network cards: card 0 device 0 is ENA, card 0 device 1
    and device 0 of each further card are EFA-only. trn2.48xlarge: 16 cards -> 1 ENA, 16 EFA.

    Raises:
        SpecError: the type has no EFA, or more of it than cards.
    """
    primary = Interface(card=0, device=0, kind=Kind.ENA)
    if not efa:
        return (primary,)
    count = offer.efa_interfaces
    if count == 0 or count > offer.network_cards:
        raise SpecError(
            f"efa = true, must be false on {offer.name}: "
            f"{count} EFA interfaces on {offer.network_cards} cards"
        )
    further = (Interface(card=card, device=0, kind=Kind.EFA) for card in range(1, count))
    return (primary, Interface(card=0, device=1, kind=Kind.EFA), *further)
