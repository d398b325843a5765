"""Whether the account may run as much as pools want at most."""

from collections.abc import Iterator

from neuronfleet.infra.settings import quotas
from neuronfleet.infra.settings.model import Settings
from neuronfleet.serving.api.problems import Problem


def problems(settings: Settings) -> Iterator[Problem]:
    """Quotas that are too small, where `infra preflight` wrote any.

    Settings without quotas pass: what is unknown is for preflight to ask, before a deployment.
    """
    if not settings.quotas:
        return
    uses = quotas.uses(settings)
    for code, vcpus in quotas.needed(settings).items():
        by = " + ".join(f"{use.by} {use.vcpus}" for use in uses if use.quota.code == code)
        name = quotas.ALL[code].name
        given = settings.quotas.get(code)
        if given is None:
            allowed = f"must be given ({name}): `neuronfleet infra preflight --write` writes it"
            yield Problem(path=f"quotas.{code}", value="nothing", allowed=allowed)
        elif given < vcpus:
            allowed = (
                f"must be at least {vcpus} vCPUs for {by} ({name}): request it from Service "
                "Quotas, or lower their most"
            )
            yield Problem(path=f"quotas.{code}", value=given, allowed=allowed)
