"""What a queue tells others that it claims."""

from collections.abc import Iterable, Mapping

from neuronfleet.serving.gateway.claims import Act, Add, Limit, ReplicaSeen


class Ledger:
    """The told claims of one queue: grown before an act, lowered after it."""

    def __init__(self) -> None:
        self.claims: dict[str, int] = {}

    def before(self, acts: Iterable[Act]) -> None:
        """Tell what acts are about to take."""
        for act in acts:
            if isinstance(act, Add | Limit):
                self.claims[act.replica] = max(self.claims.get(act.replica, 0), act.limit)

    def after(self, seen: Mapping[str, ReplicaSeen]) -> None:
        """Tell what is claimed by what was read once all acts were done."""
        self.claims = {name: server.claim for name, server in seen.items() if server.claim > 0}
