"""What HAProxy counts, as facts about fleets and replicas."""

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class ReplicaState(StrEnum):
    """How HAProxy sees a replica."""

    UP = "UP"
    DOWN = "DOWN"
    DRAIN = "DRAIN"
    MAINT = "MAINT"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStats:
    """One server."""

    name: str
    state: ReplicaState
    weight: int
    ceiling: int
    in_flight: int
    """Sequences that the replica has now; canaries count."""
    max_in_flight: int
    """The most it has had since it was added."""
    queued: int
    """Canaries that wait for this replica."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetStats:
    """One backend."""

    name: str
    queued: int
    """Requests in the fleet's queue, and canaries in those of its replicas."""
    in_flight: int
    """Sequences on all replicas, those that drain included."""
    refused: int
    """Requests since the start that no replica took: past the queue deadline, at once for want of
    a server, or after every attempt to connect had failed."""
    requests: int
    """Requests since the start that were meant for this fleet, the refused included."""
    replicas: tuple[ReplicaStats, ...]


def parse_stats(text: str, fleets: Iterable[str]) -> dict[str, FleetStats]:
    """The stats of `fleets` in an answer to `show stat`."""
    rows = list(csv.DictReader(text.removeprefix("# ").splitlines()))
    return {fleet: _fleet(fleet, [r for r in rows if r["pxname"] == fleet]) for fleet in fleets}


def _fleet(name: str, rows: list[dict[str, str]]) -> FleetStats:
    backend = next(row for row in rows if row["svname"] == "BACKEND")
    servers = [row for row in rows if row["svname"] != "BACKEND"]
    # The gateway's own server is no replica: it holds a queue open (see `HOLD`).
    replicas = tuple(_replica(row) for row in servers if not row["svname"].startswith("_"))
    return FleetStats(
        name=name,
        queued=int(backend["qcur"]) + sum(replica.queued for replica in replicas),
        # The backend's own scur counts what waits as well.
        in_flight=sum(replica.in_flight for replica in replicas),
        # "econ" counts exactly the requests that ended without a connection to a server.
        refused=int(backend["econ"]),
        requests=int(backend["req_tot"]),
        replicas=replicas,
    )


def _replica(row: dict[str, str]) -> ReplicaStats:
    return ReplicaStats(
        name=row["svname"],
        state=_state(row["status"]),
        weight=int(row["weight"]),
        ceiling=int(row["slim"]),
        in_flight=int(row["scur"]),
        max_in_flight=int(row["smax"]),
        queued=int(row["qcur"]),
    )


def _state(status: str) -> ReplicaState:
    # "UP 1/3" is on its way down and "no check" is used as if it were up; "NOLB" takes nothing new.
    word = status.split()[0]
    return ReplicaState({"no": "UP", "NOLB": "DRAIN"}.get(word, word))
