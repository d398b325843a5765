"""Namespaces that fleets live in, and the service account that their replicas have."""

from neuronfleet.infra.addons.manifests.objects import Manifest, namespace, service_account
from neuronfleet.infra.settings.model import Serving


def manifests(serving: Serving) -> list[Manifest]:
    """A namespace each, which takes restricted pods alone, with its service account.

    `default` is there as soon as the namespace is: it is not written over.
    """
    made = [namespace(name, "restricted") for name in serving.fleet_namespaces]
    if serving.service_account != "default":
        made += [
            service_account(serving.service_account, name) for name in serving.fleet_namespaces
        ]
    return made
