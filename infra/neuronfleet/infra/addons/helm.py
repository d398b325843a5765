"""A pinned chart, installed."""

from collections.abc import Mapping
from typing import Any

from aws_cdk import Duration
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from neuronfleet.infra.charts.chart import Chart

TIMEOUT = Duration.minutes(10)
"""Below the 15 minutes of the function that runs helm: one that is cut off there leaves a release
`pending`, which no later deployment can upgrade."""


def install(
    scope: Construct,
    id: str,
    chart: Chart,
    *,
    cluster: eks.ICluster,
    namespace: str,
    values: Mapping[str, Any] | None = None,
    skip_crds: bool = False,
) -> eks.HelmChart:
    """Install a chart and wait for what it starts.

    Not atomic: what failed stays to be looked at, and the next deployment upgrades it.
    """
    return eks.HelmChart(
        scope,
        id,
        cluster=cluster,
        chart=chart.name,
        version=chart.version,
        repository=chart.repository,
        release=chart.name,
        namespace=namespace,
        create_namespace=False,
        values=None if values is None else dict(values),
        skip_crds=skip_crds,
        wait=True,
        atomic=False,
        timeout=TIMEOUT,
    )
