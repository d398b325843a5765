"""Events as EC2 sends them."""

from typing import Any

END = "2027-03-04T11:30:00Z"


def notice(block: str, end: str = END) -> dict[str, Any]:
    """Forty minutes before a capacity block's end (EC2 User Guide, Monitor Capacity Blocks)."""
    return {
        "version": "0",
        "detail-type": "Capacity Block Reservation Expiration Warning",
        "source": "aws.ec2",
        "detail": {"capacity-reservation-id": block, "end-date": end},
    }
