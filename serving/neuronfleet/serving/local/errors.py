"""What can go wrong while a local fleet runs, so that the caller knows what to do."""


class LocalError(RuntimeError):
    """The run cannot start or go on; the message says what would help."""


class BootFailedError(LocalError):
    """One replica did not come up; another may."""
