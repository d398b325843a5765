"""What can go wrong with a running gateway."""


class GatewayError(RuntimeError):
    """The gateway could not be started, or is gone; the message carries HAProxy's own words."""


class GatewayCommandError(GatewayError):
    """HAProxy refused a command of its runtime API."""

    def __init__(self, command: str, answer: str) -> None:
        super().__init__(f"{command!r} was answered with {answer.strip()!r}")
        self.command = command
        self.answer = answer.strip()


class ReplicaBusyError(GatewayError):
    """A replica still has streams, so it cannot be removed yet: try again later."""
