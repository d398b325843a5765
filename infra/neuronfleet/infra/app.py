"""The CDK app: one settings file, one region, weakly coupled stacks.

`npx cdk synth --strict -c settings=examples/infra/us-east-2.yaml`; with `-c now=TIME` (ISO 8601)
settings are judged as of that time. Of templates only a block's schedules know it: EventBridge
Scheduler refuses a start that is past.
"""

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from aws_cdk import App, Environment, Tags

from neuronfleet.infra import nag
from neuronfleet.infra.commands import stack_ids
from neuronfleet.infra.settings import parse, truth
from neuronfleet.infra.settings.model import Owner, Settings
from neuronfleet.infra.stacks import naming
from neuronfleet.infra.stacks.addons import AddonsStack
from neuronfleet.infra.stacks.build import BuildStack
from neuronfleet.infra.stacks.cluster import ClusterStack
from neuronfleet.infra.stacks.data import DataStack
from neuronfleet.infra.stacks.facts import ClusterFacts, NetworkFacts
from neuronfleet.infra.stacks.network import NetworkStack
from neuronfleet.infra.stacks.observability import ObservabilityStack
from neuronfleet.infra.stacks.pool import PoolStack
from neuronfleet.infra.stacks.serving import ServingStack
from neuronfleet.serving.api.problems import SpecError

CONFIGURATION = Path(__file__).parents[3] / "cdk.json"
BOUNDARY = "@aws-cdk/core:permissionsBoundary"


def build(
    settings: Settings,
    *,
    outdir: str | None = None,
    now: datetime | None = None,
    context: Mapping[str, Any] | None = None,
) -> App:
    """Every stack of a deployment.

    Args:
        settings: What is deployed; they have been found true.
        outdir: Where the assembly is written; None: where CDK says.
        now: Time of the synthesis, for what refuses a deployment by the clock.
        context: More of CDK's context, beside what cdk.json has.
    """
    found: dict[str, Any] = {**flags(), **(context or {})}
    if settings.permissions_boundary is not None:
        found[BOUNDARY] = {"name": settings.permissions_boundary}
    app = App(context=found, outdir=outdir, analytics_reporting=False)
    for key, value in sorted(naming.tags(settings).items()):
        # A placement group's tags are create-only: another one would replace it and its nodes.
        Tags.of(app).add(key, value, exclude_resource_types=["AWS::EC2::PlacementGroup"])
    _stacks(app, settings, now)
    nag.apply(app)
    return app


def _stacks(app: App, settings: Settings, now: datetime | None) -> None:
    env = Environment(account=settings.account, region=settings.region)
    network = NetworkStack(app, stack_ids.network(settings), settings=settings, env=env).facts
    data = DataStack(app, stack_ids.data(settings), settings=settings, env=env).facts
    BuildStack(app, stack_ids.build(settings), settings=settings, env=env, data=data)
    cluster = ClusterStack(
        app, stack_ids.cluster(settings), settings=settings, env=env, network=network
    ).facts
    _pools(app, settings, env, network, cluster, now)
    AddonsStack(
        app,
        stack_ids.addons(settings),
        settings=settings,
        env=env,
        network=network,
        data=data,
        cluster=cluster,
    )
    ObservabilityStack(
        app,
        stack_ids.observability(settings),
        settings=settings,
        env=env,
        network=network,
        cluster=cluster,
    )
    if is_built(settings):
        ServingStack(
            app, stack_ids.serving(settings), settings=settings, env=env, data=data, cluster=cluster
        )


def _pools(
    app: App,
    settings: Settings,
    env: Environment,
    network: NetworkFacts,
    cluster: ClusterFacts,
    now: datetime | None,
) -> None:
    for pool in settings.pools:
        if pool.owner is Owner.NODE_GROUP:
            PoolStack(
                app,
                stack_ids.pool(settings, pool),
                settings=settings,
                pool=pool,
                network=network,
                cluster=cluster,
                env=env,
                now=now,
            )


def is_built(settings: Settings) -> bool:
    """Whether every image is in the registry: Serving would wait for the rest and roll back."""
    return bool(settings.images) and all(image.digest for image in settings.images)


@cache
def flags() -> Mapping[str, Any]:
    """CDK's feature flags, as the command line reads them too."""
    read: dict[str, Any] = json.loads(CONFIGURATION.read_text(encoding="utf-8"))["context"]
    return read


def main() -> int:
    """Synthesise what `-c settings=` names; wrong settings end it with status 2, a line each."""
    given = App(analytics_reporting=False).node
    path, clock = given.try_get_context("settings"), given.try_get_context("now")
    if not path:
        print("settings is not given, must be a settings file: -c settings=FILE", file=sys.stderr)
        return 2
    try:
        now = _time(clock)
        settings = parse.load(Path(path))
        truth.require(settings, now, path)
        build(settings, now=now).synth()
    except SpecError as wrong:
        lines = [str(problem) for problem in wrong.problems] or [str(wrong)]
        print("\n".join(lines), file=sys.stderr)
        return 2
    return 0


def _time(clock: str | None) -> datetime:
    if clock is None:
        return datetime.now(UTC)
    try:
        told = datetime.fromisoformat(clock)
    except ValueError:
        told = None
    if told is None or told.tzinfo is None:
        raise SpecError(f"now = {clock}, must be a time with its zone, as 2027-01-01T00:00:00Z")
    return told


if __name__ == "__main__":
    sys.exit(main())
