"""`neuronfleet infra destroy-plan`: what `cdk destroy` takes, what it leaves, what that costs."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from neuronfleet.infra.commands import stack_ids
from neuronfleet.infra.commands.assembly import SynthesisedStack
from neuronfleet.infra.commands.kept import Kept, of_assembly, of_settings
from neuronfleet.infra.settings.model import ExistingCluster, ExistingNetwork, Owner, Settings
from neuronfleet.infra.stacks import naming


@dataclass(frozen=True, slots=True, kw_only=True)
class StackEnd:
    """One stack and its end."""

    id: str
    what: str
    """What goes with it."""
    is_protected: bool
    """Whether CloudFormation refuses to delete it until its protection is off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Commands to run together, and why."""

    why: str
    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DestroyPlan:
    """The end of a deployment, in order."""

    region: str
    stacks: tuple[StackEnd, ...]
    """Last made first."""
    kept: tuple[Kept, ...]
    stays: tuple[str, ...]
    """What was never the deployment's, or is paid for beyond it."""
    steps: tuple[Step, ...]
    for_good: tuple[Step, ...]
    """What deletes data; nothing else does."""


def destroy_plan(
    settings: Settings, source: str, assembly: Sequence[SynthesisedStack] = ()
) -> DestroyPlan:
    """The plan, from settings alone or with what was synthesised of them.

    Args:
        settings: what was deployed.
        source: path of their file, for the commands.
        assembly: stacks as `assembly.read` gives them; exact where it is given.
    """
    stacks = tuple(_of_assembly(assembly)) if assembly else tuple(_of_settings(settings))
    kept = tuple(of_assembly(settings.region, assembly) if assembly else of_settings(settings))
    return DestroyPlan(
        region=settings.region,
        stacks=stacks,
        kept=kept,
        stays=tuple(_stays(settings)),
        steps=tuple(_steps(settings, stacks, source)),
        for_good=tuple(_for_good(settings)),
    )


def _of_settings(settings: Settings) -> Iterator[StackEnd]:
    """Every stack that settings make, without templates to count in."""
    if settings.images and all(image.digest for image in settings.images):
        yield _end(stack_ids.serving(settings), "the chart: controller, gateways, their roles")
    yield _end(stack_ids.observability(settings), "scraper, rules, alarms, budget; metrics stay")
    yield _end(stack_ids.addons(settings), "Karpenter with its pools, device plugins, queue")
    for pool in settings.pools:
        if stack_ids.has_own(pool):
            what = f"up to {pool.most} {pool.instance_type} and their node group"
            yield _end(stack_ids.pool(settings, pool), what)
    if isinstance(settings.cluster, ExistingCluster):
        what = "what was added to the cluster; the cluster stays"
    else:
        what = "the cluster and its system nodes, with every object in it"
    yield _end(stack_ids.cluster(settings), what)
    yield _end(stack_ids.build(settings), "image builds; images stay")
    yield _end(stack_ids.data(settings), "nothing that holds data", is_protected=True)
    yield _end(stack_ids.network(settings), "NAT, endpoints, and the VPC where it is our own")


def _end(id: str, what: str, *, is_protected: bool = False) -> StackEnd:
    return StackEnd(id=id, what=what, is_protected=is_protected)


def _of_assembly(assembly: Sequence[SynthesisedStack]) -> Iterator[StackEnd]:
    for stack in reversed(assembly):
        count = sum(stack.gone.values())
        most = sorted(stack.gone.items(), key=lambda one: (-one[1], one[0]))[:4]
        shown = ", ".join(f"{number} {kind.removeprefix('AWS::')}" for kind, number in most)
        rest = f", {count - sum(n for _, n in most)} more" if len(stack.gone) > 4 else ""
        what = f"{count} resources: {shown}{rest}" if count else "nothing"
        yield StackEnd(id=stack.id, what=what, is_protected=stack.is_protected)


def _stays(settings: Settings) -> Iterator[str]:
    if isinstance(settings.cluster, ExistingCluster):
        yield f"cluster {settings.cluster.name}: it stood before"
    if isinstance(settings.network, ExistingNetwork):
        yield f"{settings.network.vpc_id} and its subnets: they stood before"
    for pool in settings.pools:
        if pool.block is None:
            continue
        if pool.block.ends_at is not None and pool.capacity.value == "capacity-block":
            until = f"{pool.block.ends_at:%Y-%m-%d %H:%M}Z"
            yield f"capacity block {pool.block.id}: paid to its end on {until}, never refunded"
        else:
            yield (
                f"reservation {pool.block.id}: costs until it is cancelled "
                f"(aws ec2 cancel-capacity-reservation --capacity-reservation-id {pool.block.id} "
                f"--region {settings.region})"
            )
    yield "CDKToolkit, the stack of `cdk bootstrap`: other deployments use it too"


def _steps(settings: Settings, stacks: Sequence[StackEnd], source: str) -> Iterator[Step]:
    yield Step(
        why="fleets go first, so that gateways drain and nobody waits for a node",
        commands=("kubectl delete servingfleets --all --all-namespaces",),
    )
    if any(pool.owner is Owner.KARPENTER for pool in settings.pools):
        yield Step(
            why="Karpenter ends its own nodes; without it they would run on, and cost, unseen",
            commands=(
                "kubectl delete nodepools --all",
                "kubectl get nodes -l karpenter.sh/nodepool # wait until there is none",
            ),
        )
    protected = [stack.id for stack in stacks if stack.is_protected]
    names = " ".join(stack.id for stack in stacks if not stack.is_protected)
    given = f"-c settings={shlex.quote(source)}"
    yield Step(
        why="the stacks that hold no data, last made first",
        commands=(f"npx cdk destroy --exclusively {names} {given}",),
    )
    if protected:
        yield Step(
            why="those with termination protection; what holds data in them is left all the same",
            commands=(
                *(_unprotect(name, settings.region) for name in protected),
                f"npx cdk destroy --exclusively {' '.join(protected)} {given}",
            ),
        )


def _unprotect(stack: str, region: str) -> str:
    return (
        "aws cloudformation update-termination-protection --no-enable-termination-protection "
        f"--stack-name {stack} --region {region}"
    )


def _for_good(settings: Settings) -> Iterator[Step]:
    region = f"--region {settings.region}"
    tagged = f"--tag-filters Key={naming.DEPLOYMENT_TAG},Values={settings.name}"
    yield Step(
        why="what is left of the deployment",
        commands=(f"aws resourcegroupstaggingapi get-resources {tagged} {region}",),
    )
    yield Step(
        why="weights, graphs and access logs: versioned, so every version goes one by one",
        commands=(
            f"aws s3api list-object-versions --bucket BUCKET {region}",
            f"aws s3api delete-objects --bucket BUCKET --delete file://versions.json {region}",
            f"aws s3 rb s3://BUCKET {region}",
        ),
    )
    yield Step(
        why="images",
        commands=(f"aws ecr delete-repository --force --repository-name REPOSITORY {region}",),
    )
    yield Step(
        why="logs",
        commands=(f"aws logs delete-log-group --log-group-name GROUP {region}",),
    )
    yield Step(
        why="the key, last: what it encrypted, backups too, can never be read again",
        commands=(
            f"aws kms schedule-key-deletion --key-id KEY --pending-window-in-days 30 {region}",
        ),
    )


def document(plan: DestroyPlan) -> dict[str, Any]:
    """The plan as docs/schemas/infra-destroy-plan.json describes it; null is unknown."""
    return {
        "region": plan.region,
        "stacks": [
            {"id": one.id, "what": one.what, "protected": one.is_protected} for one in plan.stacks
        ],
        "kept": [
            {
                "stack": one.stack,
                "what": one.what,
                "usd_per_month": one.usd_per_month,
                "price": one.price,
            }
            for one in plan.kept
        ],
        "stays": list(plan.stays),
        "steps": [_step(one) for one in plan.steps],
        "deletes_data": [_step(one) for one in plan.for_good],
    }


def _step(step: Step) -> dict[str, Any]:
    return {"why": step.why, "commands": list(step.commands)}
