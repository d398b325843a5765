"""Settings that say the wrong thing of pools."""

from tests.infra.settings.cases import BLOCK, EFA, GONE, INF2, SPOT, TRN1, Case, standing_cluster

BUYING = [
    Case(
        "EFA where there is none",
        {f"{INF2}.efa": True},
        f"{INF2}.efa",
        "true",
        "inf2.xlarge has no EFA interface",
    ),
    Case(
        "EFA under Karpenter",
        {f"{TRN1}.instanceType": "trn1.32xlarge", f"{TRN1}.efa": True, "quotas": {}},
        f"{TRN1}.efa",
        "true",
        "owner must be node-group",
    ),
    Case(
        "Karpenter with a block",
        {f"{BLOCK}.owner": "karpenter", f"{BLOCK}.efa": False},
        f"{BLOCK}.owner",
        "karpenter",
        "must be node-group",
    ),
    Case(
        "a spot node group",
        {f"{SPOT}.owner": "node-group"},
        f"{SPOT}.owner",
        "node-group",
        "must be karpenter",
    ),
    Case(
        "an on-demand node group without a fixed place",
        {f"{EFA}.efa": False},
        f"{EFA}.owner",
        "node-group",
        "or efa must be true",
    ),
    Case(
        "a block of what is not sold in blocks",
        {
            f"{BLOCK}.instanceType": "inf2.xlarge",
            f"{BLOCK}.efa": False,
            f"{BLOCK}.block.instanceType": "inf2.xlarge",
            f"{BLOCK}.sdk": "2.28",
            f"{BLOCK}.amiRelease": "v20260403",
            f"{BLOCK}.logicalCoreSize": GONE,
            f"{BLOCK}.models": GONE,
        },
        f"{BLOCK}.capacity",
        "capacity-block",
        "one of on-demand, spot, reserved",
    ),
]
BLOCKS = [
    Case("no block", {f"{BLOCK}.block": GONE}, f"{BLOCK}.block", "nothing", "startsAt, endsAt"),
    Case(
        "a reserved pool without reservation",
        {f"{BLOCK}.block": GONE, f"{BLOCK}.capacity": "reserved", "quotas": {}},
        f"{BLOCK}.block",
        "nothing",
        "id, instanceType, zone, count",
    ),
    Case(
        "an on-demand pool with a block",
        {f"{BLOCK}.capacity": "on-demand", "quotas": {}},
        f"{BLOCK}.block",
        "cr-0123456789abcdef0",
        "capacity-block or reserved",
    ),
    Case(
        "a spot pool with a block",
        {
            f"{SPOT}.block": {
                "id": "cr-0123456789abcdef1",
                "instanceType": "trn1.2xlarge",
                "zone": "use2-az3",
                "count": 4,
            }
        },
        f"{SPOT}.block",
        "cr-0123456789abcdef1",
        "left out of a pool that is spot",
    ),
    Case(
        "a block of another type",
        {f"{BLOCK}.block.instanceType": "trn1.32xlarge"},
        f"{BLOCK}.block.instanceType",
        "trn1.32xlarge",
        "the pool's instanceType = trn2.48xlarge",
    ),
    Case(
        "a block in another zone",
        {f"{BLOCK}.block.zone": "use2-az2"},
        f"{BLOCK}.block.zone",
        "use2-az2",
        "the pool's zone = use2-az1",
    ),
    Case("more than reserved", {f"{BLOCK}.most": 2}, f"{BLOCK}.most", "2", "block.count = 1"),
    Case("nodes before the start", {f"{BLOCK}.least": 1}, f"{BLOCK}.least", "1", "must be 0"),
    Case(
        "no start",
        {f"{BLOCK}.block.startsAt": GONE},
        f"{BLOCK}.block.startsAt",
        "nothing",
        "as 2027-03-01T11:30:00Z",
    ),
    Case(
        "no end",
        {f"{BLOCK}.block.endsAt": GONE},
        f"{BLOCK}.block.endsAt",
        "nothing",
        "block's time",
    ),
    Case(
        "an end before the start",
        {f"{BLOCK}.block.endsAt": "2027-02-01T11:30:00Z"},
        f"{BLOCK}.block.endsAt",
        "2027-02-01",
        "must be after startsAt",
    ),
    Case(
        "a block that is over",
        {
            f"{BLOCK}.block.startsAt": "2026-11-01T11:30:00Z",
            f"{BLOCK}.block.endsAt": "2026-11-08T11:30:00Z",
        },
        f"{BLOCK}.block.endsAt",
        "2026-11-08",
        "is past",
    ),
    Case(
        "a block too short for its own end",
        {f"{BLOCK}.block.endsAt": "2027-03-01T12:10:00Z"},
        f"{BLOCK}.block.endsAt",
        "2027-03-01T12:10",
        "more than 40 minutes after startsAt",
    ),
    Case(
        "a block with no time left",
        {
            f"{BLOCK}.block.startsAt": "2026-11-30T00:00:00Z",
            f"{BLOCK}.block.endsAt": "2026-12-01T00:30:00Z",
        },
        f"{BLOCK}.block.endsAt",
        "2026-12-01T00:30",
        "more than 40 minutes ahead",
    ),
    Case(
        "an UltraServer that is none",
        {f"{BLOCK}.block.ultraserver": True},
        f"{BLOCK}.block.ultraserver",
        "true",
        "only trn2u",
    ),
    Case(
        "one reservation for two pools",
        {
            f"{EFA}.capacity": "reserved",
            f"{EFA}.block": {
                "id": "cr-0123456789abcdef0",
                "instanceType": "trn1.32xlarge",
                "zone": "use2-az3",
                "count": 2,
            },
        },
        f"{BLOCK}.block.id",
        "cr-0123456789abcdef0",
        "is that of pools[3]; must be another reservation",
    ),
    Case(
        "a block that is not bought yet",
        {f"{BLOCK}.block.id": "cr-00000000000000000"},
        f"{BLOCK}.block.id",
        "cr-00000000000000000",
        "what was reserved",
    ),
]
VERSIONS = [
    Case(
        "an SDK that the chip does not run",
        {f"{INF2}.sdk": "2.30"},
        f"{INF2}.sdk",
        "2.30",
        "must be at most 2.28 on inf2.xlarge",
    ),
    Case(
        "an AMI whose driver the SDK does not run on",
        {f"{INF2}.amiRelease": "v20260714"},
        f"{INF2}.amiRelease",
        "v20260714",
        "must be v20260304 to v20260403, or amiReason",
    ),
    Case(
        "an AMI of which nothing is known",
        {f"{BLOCK}.amiRelease": "v20261101"},
        f"{BLOCK}.amiRelease",
        "v20261101",
        "must be v20260714, or amiReason",
    ),
    Case(
        "an SDK of which no AMI is known",
        {f"{BLOCK}.sdk": "2.32"},
        f"{BLOCK}.amiRelease",
        "v20260714",
        "AMIs are known for 2.28, 2.29, 2.30, 2.31",
    ),
    Case(
        "Kubernetes that EKS does not run",
        {"cluster.version": "1.29"},
        "cluster.version",
        "1.29",
        "one of 1.33",
    ),
    Case(
        "Kubernetes of a standing cluster",
        standing_cluster(version="1.29"),
        "cluster.existing.version",
        "1.29",
        "one of 1.33",
    ),
    Case(
        "system nodes of another version",
        {"cluster.systemNodes.amiRelease": "1.34.2-20261105"},
        "cluster.systemNodes.amiRelease",
        "1.34.2-20261105",
        "1.35.x-DATE",
    ),
]
FIT = [
    Case(
        "a model too large for a device",
        {f"{INF2}.models[0].bytesPerDevice": 34 * 2**30},
        f"{INF2}.models[0].bytesPerDevice",
        str(34 * 2**30),
        "raise tensorParallelDegree",
    ),
    Case(
        "a model that leaves the runtime nothing",
        {f"{INF2}.models[0].bytesPerDevice": 32 * 2**30},
        f"{INF2}.models[0].bytesPerDevice",
        str(32 * 2**30),
        "30.8 GiB",
    ),
    Case(
        "more cores than the chip has",
        {f"{INF2}.models[0].tensorParallelDegree": 4},
        f"{INF2}.models[0].tensorParallelDegree",
        "4",
        "at most 2, the logical cores of inf2.xlarge at LNC 1",
    ),
    Case(
        "a core size where there is one",
        {f"{INF2}.logicalCoreSize": 1},
        f"{INF2}.logicalCoreSize",
        "1",
        "left out: inf2.xlarge has one core size",
    ),
    Case(
        "graphs of another core size",
        {
            f"{BLOCK}.models": [
                {
                    "name": "m",
                    "fleet": "models/m",
                    "bytesPerDevice": 1,
                    "tensorParallelDegree": 64,
                    "logicalCoreSize": 1,
                }
            ]
        },
        f"{BLOCK}.models[0].logicalCoreSize",
        "1",
        "must be the node's, 2",
    ),
]
COUNTS = [
    Case(
        "a quota smaller than the pools",
        {"quotas.L-2C3B7624": 271},
        "quotas.L-2C3B7624",
        "271",
        "at least 272 vCPUs for pools[1] 16 + pools[3] 256",
    ),
    Case(
        "a quota that was not asked for",
        {"quotas.L-6B0D517C": GONE},
        "quotas.L-6B0D517C",
        "nothing",
        "infra preflight --write",
    ),
    Case("more least than most", {f"{INF2}.least": 9}, f"{INF2}.least", "9", "at most most = 8"),
    Case(
        "system nodes upside down",
        {"cluster.systemNodes.least": 5},
        "cluster.systemNodes.least",
        "5",
        "at most most = 4",
    ),
    Case(
        "a pool's name twice",
        {f"{TRN1}.name": "inf2"},
        f"{TRN1}.name",
        "inf2",
        "is that of pools[0].name already",
    ),
    Case(
        "an image twice",
        {"images[1].name": "controller"},
        "images[1].name",
        "controller",
        "is that of images[0].name already",
    ),
    Case(
        "no namespace of fleets",
        {"serving.fleetNamespaces": []},
        "serving.fleetNamespaces",
        "nothing",
        "as [models]",
    ),
    Case(
        "a namespace twice",
        {"serving.fleetNamespaces": ["models", "models"]},
        "serving.fleetNamespaces[1]",
        "models",
        "is that of serving.fleetNamespaces[0] already",
    ),
    Case("AWS's own tag", {"tags": {"aws:x": "y"}}, "tags.aws:x", "aws:x", "not start with aws:"),
]
