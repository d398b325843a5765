"""Which cluster and namespace a command is about, by kubectl's own rules."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import yaml
from kubernetes.aio import config
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config.config_exception import ConfigException

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.controller.kube import GROUP, PLURAL, VERSION, KubeError
from neuronfleet.serving.controller.plugin.reader import Body, Reader

_FLEETS = f"/apis/{GROUP}/{VERSION}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What the user named."""

    kubeconfig: str | None = None
    """A file; None takes KUBECONFIG (files joined by colons), then ~/.kube/config."""
    context: str | None = None
    namespace: str | None = None
    """None takes the context's."""
    everywhere: bool = False
    """All namespaces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A cluster that can be read."""

    reader: Reader
    namespace: str
    everywhere: bool

    async def fleet(self, name: str) -> Body:
        """One ServingFleet.

        Raises:
            SpecError: there is none of that name, or no CRD.
            KubeError: the API server refused or did not answer.
        """
        path = f"{_FLEETS}/namespaces/{quote(self.namespace)}/{PLURAL}/{quote(name, safe='')}"
        try:
            return await self.reader.get(path)
        except KubeError as error:
            if error.status != 404:
                raise
            raise _missing(str(error), f"{name} in namespace {self.namespace}") from error

    async def fleets(self) -> tuple[Body, ...]:
        """All ServingFleets of the namespace, or of all; see `fleet`."""
        within = "" if self.everywhere else f"/namespaces/{quote(self.namespace)}"
        try:
            found = await self.reader.get(f"{_FLEETS}{within}/{PLURAL}")
        except KubeError as error:
            if error.status != 404:
                raise
            raise _missing(str(error), "at all") from error
        return tuple(found.get("items") or ())


def _missing(said: str, what: str) -> SpecError:
    if f"{PLURAL}.{GROUP}" in said:
        return SpecError(f"no ServingFleet {what}: `kubectl get sf -A` lists those that exist")
    crd = f"{PLURAL}.{GROUP}"
    return SpecError(f"the cluster has no CRD {crd} of version {VERSION}: install the chart first")


@asynccontextmanager
async def connected(target: Target) -> AsyncIterator[Access]:
    """A cluster by its kubeconfig.

    Raises:
        SpecError: the kubeconfig, or the context in it, is not there or cannot be read.
    """
    configuration = Configuration()
    files = _files(target.kubeconfig)
    try:
        loader = await config.load_kube_config(  # type: ignore[no-untyped-call]
            config_file=files,
            context=target.context,
            client_configuration=configuration,
            persist_config=False,
        )
    except (ConfigException, OSError, yaml.YAMLError, ValueError, TypeError) as error:
        text = " ".join(str(error).split())
        raise SpecError(f"kubeconfig {files}: {text}, must name a cluster and a user") from error
    context = loader.current_context.get("context") or {}
    async with ApiClient(configuration=configuration) as client:
        yield Access(
            reader=Reader(client),
            namespace=target.namespace or context.get("namespace") or "default",
            everywhere=target.everywhere,
        )


def _files(given: str | None) -> str:
    """Files of the kubeconfig; of KUBECONFIG those that exist, as kubectl reads it."""
    if given is not None:
        if not Path(given).is_file():
            raise SpecError(f"--kubeconfig = {given}, must be a file")
        return given
    default = str(Path.home() / ".kube/config")
    named = [one for one in os.environ.get("KUBECONFIG", default).split(os.pathsep) if one]
    found = [one for one in named if Path(one).is_file()]
    if not found:
        raise SpecError(
            f"kubeconfig {os.pathsep.join(named) or default} is not there: "
            "name one by KUBECONFIG or --kubeconfig"
        )
    return os.pathsep.join(found)
