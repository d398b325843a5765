"""What a podTemplate may not say: what keeps streams, ceilings and the cluster safe.

A podTemplate is written by whoever may write a ServingFleet, and its pods are made with the
controller's rights. Were it free, it would be a way to privileged pods for people who may not
create them; so it stays within PodSecurity `restricted`, whatever the namespace enforces.
"""

OWN_VOLUMES = ("shm", "tmp", "models")
POD = {
    "restartPolicy": "must be absent: a Deployment's pods always restart",
    "terminationGracePeriodSeconds": "must be absent: it follows drain.timeout",
    "activeDeadlineSeconds": "must be absent: it would cut streams",
    "serviceAccountName": "must be absent: see model.source.serviceAccount",
    "serviceAccount": "must be absent: see model.source.serviceAccount",
    "automountServiceAccountToken": "must be absent: see model.source.serviceAccount",
    "nodeName": "must be absent: it bypasses the scheduler",
    "hostNetwork": "must be absent: a replica is reached through the gateway alone",
    "hostPID": "must be absent (PodSecurity restricted)",
    "hostIPC": "must be absent (PodSecurity restricted)",
    "hostUsers": "must be absent",
    "os": "must be absent",
    "ephemeralContainers": "must be absent",
}
REPLICA = {
    "image": "must be absent: see the variant's image",
    "command": "must be absent: the image's entrypoint makes it",
    "args": "must be absent: see extraArgs",
    "ports": "must be absent: the gateway and its policy know one port",
    "startupProbe": "must be absent: it is sized from learned boots",
    "readinessProbe": "must be absent: it is the canary",
    "livenessProbe": "must be absent: it would kill a replica that is merely full",
    "lifecycle": "must be absent: its preStop drains",
    "securityContext": "must be absent (PodSecurity restricted)",
    "restartPolicy": "must be absent",
}
DEVICES = ("aws.amazon.com/neuron", "nvidia.com/", "amd.com/gpu")
POD_SECURITY = ("fsGroup", "fsGroupChangePolicy", "supplementalGroups", "runAsUser", "runAsGroup")
SECURITY = ("runAsUser", "runAsGroup", "readOnlyRootFilesystem")
VOLUMES = (
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim",
    "projected", "secret",
)  # fmt: skip
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
NODES = {
    "requiredDuringSchedulingIgnoredDuringExecution": "must be absent: see instanceType, "
    "capacityType, zones and reservation; nodeSelector may add to them"
}
LISTS = ("tolerations", "topologySpreadConstraints", "imagePullSecrets", "hostAliases")
"""Lists of a pod about which there is no other rule."""
