"""PodSecurity `restricted` (with `baseline` inside it), as its documentation lists the controls."""

from collections.abc import Iterator, Mapping
from typing import Any

Pod = Mapping[str, Any]
_VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim",
    "projected", "secret",
}  # fmt: skip


def violations(template: Pod) -> list[str]:
    """Controls that a pod template breaks; empty where it is admitted."""
    spec = template["spec"]
    return [
        *_pod(template),
        *_volumes(spec),
        *(v for one in _containers(spec) for v in _container(one, spec)),
    ]


def _containers(spec: Pod) -> list[Pod]:
    kinds = ("containers", "initContainers", "ephemeralContainers")
    return [one for kind in kinds for one in spec.get(kind, [])]


def _pod(template: Pod) -> Iterator[str]:
    spec = template["spec"]
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(name):
            yield name
    security = spec.get("securityContext", {})
    for name in ("sysctls", "seLinuxOptions", "appArmorProfile", "windowsOptions"):
        if name in security:
            yield name
    for name in template.get("metadata", {}).get("annotations", {}):
        if name.startswith("container.apparmor."):
            yield name


def _volumes(spec: Pod) -> Iterator[str]:
    for volume in spec.get("volumes", []):
        kinds = set(volume) - {"name"}
        # A volume that names no source is an emptyDir.
        if not kinds <= _VOLUMES:
            yield f"volume {volume.get('name')}: {sorted(kinds)}"


def _container(container: Pod, spec: Pod) -> Iterator[str]:
    own, pod = container.get("securityContext", {}), spec.get("securityContext", {})
    seccomp = own.get("seccompProfile", pod.get("seccompProfile", {})).get("type")
    broken = {
        "privileged": own.get("privileged"),
        "allowPrivilegeEscalation": own.get("allowPrivilegeEscalation") is not False,
        "runAsNonRoot": own.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True,
        "runAsUser": own.get("runAsUser", pod.get("runAsUser")) == 0,
        "seccomp": seccomp not in ("RuntimeDefault", "Localhost"),
        "drop ALL": "ALL" not in own.get("capabilities", {}).get("drop", []),
        "add": set(own.get("capabilities", {}).get("add", [])) - {"NET_BIND_SERVICE"},
        "procMount": own.get("procMount", "Default") != "Default",
        "hostPort": any(port.get("hostPort") for port in container.get("ports", [])),
        "probe host": any(_hosts(container)),
    }
    yield from (f"{container['name']}: {name}" for name, bad in broken.items() if bad)


def _hosts(container: Pod) -> Iterator[object]:
    hooks = container.get("lifecycle", {})
    actions = [container.get(f"{kind}Probe", {}) for kind in ("liveness", "readiness", "startup")]
    actions += [hooks.get(kind, {}) for kind in ("postStart", "preStop")]
    for action in actions:
        for kind in ("httpGet", "tcpSocket"):
            yield action.get(kind, {}).get("host")
