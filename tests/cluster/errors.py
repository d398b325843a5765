"""The one error of the harness."""


class ClusterError(Exception):
    """The cluster could not be built, started or asked; says what to do."""
