"""Holds a podTemplate to the rules of template_rules, naming every field that breaks one."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from neuronfleet.serving.api.problems import Problem
from neuronfleet.serving.controller.records import (
    COST_ANNOTATION,
    MANAGED_LABEL,
    PROTECT_ANNOTATION,
)
from neuronfleet.serving.controller.workloads import template_rules as rules
from neuronfleet.serving.controller.workloads.names import COMPONENT, COMPONENT_LABEL, OWN_PREFIX
from neuronfleet.serving.controller.workloads.replica_spec import REPLICA_ENV


class Guard:
    """The rules over one podTemplate; notes a problem for each one broken."""

    def __init__(self, path: str, mounts: Collection[str]) -> None:
        self._path = path
        self._mounts = mounts
        self.problems: list[Problem] = []

    def check(self, template: Mapping[str, Any]) -> list[Problem]:
        """All problems, each with its path."""
        self._shape(template, "")
        for key in template:
            if key not in ("metadata", "spec"):
                self._wrong(key, template[key], "is not a field; known: metadata, spec")
        metadata, spec = self._map(template, "", "metadata"), self._map(template, "", "spec")
        self._metadata(metadata)
        self._spec(spec)
        return self.problems

    def _metadata(self, metadata: Mapping[str, Any]) -> None:
        for key in metadata:
            if key not in ("labels", "annotations"):
                self._wrong(f"metadata.{key}", metadata[key], "must be labels or annotations")
        for kind, owned in (
            ("labels", (MANAGED_LABEL, COMPONENT_LABEL)),
            ("annotations", (PROTECT_ANNOTATION, COST_ANNOTATION)),
        ):
            for key, value in self._map(metadata, "metadata.", kind).items():
                if key in owned or key.startswith((OWN_PREFIX, "container.apparmor.")):
                    self._wrong(f"metadata.{kind}[{key}]", value, "must be absent: it is ours")

    def _spec(self, spec: Mapping[str, Any]) -> None:
        self._absent(spec, "spec.", rules.POD)
        affinity = self._map(spec, "spec.", "affinity")
        nodes = self._map(affinity, "spec.affinity.", "nodeAffinity")
        self._absent(nodes, "spec.affinity.nodeAffinity.", rules.NODES)
        for kind in rules.LISTS:
            list(self._items(spec, "spec.", kind))
        self._security(spec, "spec.", rules.POD_SECURITY)
        for volume, at in self._items(spec, "spec.", "volumes"):
            self._volume(volume, at)
        for kind in ("containers", "initContainers"):
            for container, at in self._items(spec, "spec.", kind):
                self._container(container, at, replica=kind == "containers")

    def _volume(self, volume: Mapping[str, Any], at: str) -> None:
        if volume.get("name") in rules.OWN_VOLUMES:
            self._wrong(at, volume["name"], "must be absent: it is ours")
        for kind in volume:
            if kind not in ("name", *rules.VOLUMES):
                self._wrong(
                    f"{at}.{kind}", volume[kind], f"must be one of {', '.join(rules.VOLUMES)}"
                )

    def _container(self, container: Mapping[str, Any], at: str, *, replica: bool) -> None:
        name = container.get("name")
        if not isinstance(name, str):
            self._wrong(f"{at}.name", name, "must be given")
        elif name == COMPONENT and replica:
            self._absent(container, f"{at}.", rules.REPLICA)
        elif name == COMPONENT:
            self._wrong(f"{at}.name", name, "must be another name: replica is ours")
        else:
            self._beside(container, at)
        for variable, where in self._items(container, f"{at}.", "env"):
            if variable.get("name") == REPLICA_ENV:
                self._wrong(where, variable.get("value"), "must be absent: it is the variant")
        for mount, where in self._items(container, f"{at}.", "volumeMounts"):
            ours = mount.get("name") in rules.OWN_VOLUMES
            if name == COMPONENT and (ours or mount.get("mountPath") in self._mounts):
                self._wrong(where, mount.get("mountPath"), "must be absent: it is ours")
        resources = self._map(container, f"{at}.", "resources")
        self._absent(resources, f"{at}.resources.", {"claims": "must be absent"})
        for kind in ("requests", "limits"):
            for key, value in self._map(resources, f"{at}.resources.", kind).items():
                if key.startswith(rules.DEVICES):
                    where = f"{at}.resources.{kind}[{key}]"
                    self._wrong(where, value, "must be absent: it follows tensorParallelDegree")

    def _beside(self, container: Mapping[str, Any], at: str) -> None:
        """A container of the user's: hardened as ours, and no way to the host."""
        self._security(container, f"{at}.", rules.SECURITY)
        for port, where in self._items(container, f"{at}.", "ports"):
            self._absent(port, f"{where}.", dict.fromkeys(("hostPort", "hostIP"), "must be absent"))
        hooks = self._map(container, f"{at}.", "lifecycle")
        actions = [(self._map(container, f"{at}.", one), f"{at}.{one}.") for one in rules.PROBES]
        actions += [
            (self._map(hooks, f"{at}.lifecycle.", one), f"{at}.lifecycle.{one}.")
            for one in ("postStart", "preStop")
        ]
        for action, where in actions:
            for kind in ("httpGet", "tcpSocket"):
                target = self._map(action, where, kind)
                self._absent(target, f"{where}{kind}.", {"host": "must be absent"})

    def _security(self, holder: Mapping[str, Any], prefix: str, allowed: tuple[str, ...]) -> None:
        for key, value in self._map(holder, prefix, "securityContext").items():
            where = f"{prefix}securityContext.{key}"
            if key not in allowed:
                self._wrong(where, value, f"must be one of {', '.join(allowed)}")
            elif key == "runAsUser" and (type(value) is not int or value < 1):
                self._wrong(where, value, "must be at least 1: root is refused")

    def _absent(self, holder: Mapping[str, Any], prefix: str, rules: Mapping[str, str]) -> None:
        for key, allowed in rules.items():
            if key in holder:
                self._wrong(f"{prefix}{key}", holder[key], allowed)

    def _shape(self, value: Any, at: str) -> None:
        """No nulls and no directives: they would delete what stands below."""
        if value is None:
            self._wrong(at, "null", "must be left out")
        elif isinstance(value, Mapping):
            for key, item in value.items():
                where = f"{at}.{key}" if at else str(key)
                if not isinstance(key, str) or key.startswith("$"):
                    self._wrong(where, item, "is not a field")
                self._shape(item, where)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                self._shape(item, f"{at}[{index}]")

    def _map(self, holder: Mapping[str, Any], prefix: str, key: str) -> Mapping[str, Any]:
        value = holder.get(key, {})
        if isinstance(value, Mapping):
            return {str(name): item for name, item in value.items()}
        self._wrong(f"{prefix}{key}", value, "must be a mapping")
        return {}

    def _items(
        self, holder: Mapping[str, Any], prefix: str, key: str
    ) -> Iterator[tuple[Mapping[str, Any], str]]:
        """The mappings of a named list with their paths; what is none of them is a problem."""
        value = holder.get(key, [])
        if not isinstance(value, list):
            self._wrong(f"{prefix}{key}", value, "must be a list")
            return
        for index, item in enumerate(value):
            if not isinstance(item, Mapping):
                self._wrong(f"{prefix}{key}[{index}]", item, "must be a mapping")
                continue
            yield item, f"{prefix}{key}[{item.get('name', index)}]"

    def _wrong(self, where: str, value: object, allowed: str) -> None:
        path = f"{self._path}.{where}" if where else self._path
        self.problems.append(Problem(path=path, value=value, allowed=allowed))
