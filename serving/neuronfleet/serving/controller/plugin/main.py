"""Entry point of `kubectl neuronfleet`."""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import typer

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.controller.plugin import console
from neuronfleet.serving.controller.plugin.access import Access, Target, connected
from neuronfleet.serving.controller.plugin.doctor import view as doctor_view
from neuronfleet.serving.controller.plugin.doctor.diagnose import diagnose
from neuronfleet.serving.controller.plugin.doctor.findings import Level, worst
from neuronfleet.serving.controller.plugin.doctor.gather import LeaseNames, gather
from neuronfleet.serving.controller.plugin.top import view as top_view
from neuronfleet.serving.controller.plugin.top.gather import tops
from neuronfleet.serving.controller.plugin.top.metrics import measure
from neuronfleet.serving.controller.plugin.why import view as why_view
from neuronfleet.serving.controller.plugin.why.explain import document, explain

PROMETHEUS = "NEURONFLEET_PROMETHEUS"
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_T = TypeVar("_T")

app = typer.Typer(
    name="kubectl neuronfleet",
    help="Why a fleet has its size, what its replicas do, and what is wrong with it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The ServingFleet.")]
Kubeconfig = Annotated[
    str | None, typer.Option("--kubeconfig", help="A kubeconfig; else KUBECONFIG.")
]
Context = Annotated[str | None, typer.Option("--context", help="A context of the kubeconfig.")]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", help="A namespace; else the context's.")
]
Json = Annotated[bool, typer.Option("--json", help="Print a JSON document.")]


@app.callback()
def shared(
    context: typer.Context,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
    namespace: Namespace = None,
) -> None:
    """Why a fleet has its size, what its replicas do, and what is wrong with it."""
    context.obj = Target(kubeconfig=kubeconfig, context=kube_context, namespace=namespace)


@app.command("why", epilog="Example: `kubectl neuronfleet why llama-8b -n models`")
def why(
    context: typer.Context,
    name: Name,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
    namespace: Namespace = None,
    json: Json = False,
) -> None:
    """Show the last decisions of a fleet, their inputs, and what limits it."""
    with console.errors_exit():
        target = _target(context, kubeconfig, kube_context, namespace)

        async def ask(access: Access) -> Any:
            fleet = await access.fleet(_named(name))
            return explain(fleet, access.reader.now)

        found = _run(target, ask)
    if json:
        console.print_json(document(found))
    else:
        why_view.show(found, console.opened())


@app.command(
    "top", epilog="Example: `kubectl neuronfleet top -A --prometheus http://localhost:9090`"
)
def top(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The ServingFleet; else all.")
    ] = None,
    prometheus: Annotated[
        str | None,
        typer.Option("--prometheus", envvar=PROMETHEUS, help="URL of Prometheus."),
    ] = None,
    everywhere: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Fleets of all namespaces.")
    ] = False,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
    namespace: Namespace = None,
    json: Json = False,
) -> None:
    """Show slots, load, tokens a second and dollars per million, by replica."""
    with console.errors_exit():
        target = _target(context, kubeconfig, kube_context, namespace, everywhere=everywhere)
        if name is not None and everywhere:
            raise SpecError(f"--all-namespaces and NAME = {name}, must be one or the other")
        url, wanted = _url(prometheus), None if name is None else _named(name)

        async def ask(access: Access) -> Any:
            return await tops(access, wanted, lambda: measure(url))

        found = _run(target, ask)
    if json:
        console.print_json([top_view.document(one) for one in found])
        return
    out = console.opened()
    if not found:
        out.print("no ServingFleet")
    for index, one in enumerate(found):
        if index:
            out.print()
        top_view.show(one, out)


@app.command("doctor", epilog="Example: `kubectl neuronfleet doctor llama-8b -n models`")
def doctor(
    context: typer.Context,
    name: Name,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
    namespace: Namespace = None,
    controller_lease: Annotated[
        str, typer.Option("--controller-lease", help="Name of the controller's Lease.")
    ] = LeaseNames().controller,
    gateway_lease: Annotated[
        str | None,
        typer.Option("--gateway-lease", help="Name of the gateway's Lease; else the chart's."),
    ] = None,
    json: Json = False,
) -> None:
    """Check all that a fleet needs; exit status 1 where anything fails."""
    with console.errors_exit():
        target = _target(context, kubeconfig, kube_context, namespace)
        leases = LeaseNames(controller=controller_lease, gateway=gateway_lease)

        async def ask(access: Access) -> Any:
            return await gather(access, _named(name), leases)

        facts = _run(target, ask)
    findings = diagnose(facts)
    if json:
        console.print_json(doctor_view.document(facts.namespace, facts.name, findings))
    else:
        doctor_view.show(facts.namespace, facts.name, findings, console.opened())
    if worst(findings) is Level.FAIL:
        raise typer.Exit(console.FAILURE)


def _target(
    context: typer.Context,
    kubeconfig: str | None,
    kube_context: str | None,
    namespace: str | None,
    *,
    everywhere: bool = False,
) -> Target:
    """Options may stand before the command or behind it; behind wins."""
    before: Target = context.obj
    space = namespace or before.namespace
    if everywhere and space is not None:
        raise SpecError(f"--all-namespaces and --namespace = {space}, must be one or the other")
    if space is not None and not _NAME.fullmatch(space):
        raise SpecError(f"--namespace = {space}, must match {_NAME.pattern}")
    return Target(
        kubeconfig=kubeconfig or before.kubeconfig,
        context=kube_context or before.context,
        namespace=space,
        everywhere=everywhere,
    )


def _named(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise SpecError(f"NAME = {name}, must match {_NAME.pattern}")
    return name


def _url(given: str | None) -> str:
    """Where Prometheus is.

    Raises:
        SpecError: nobody said, or not by a URL.
    """
    url = given or os.environ.get(PROMETHEUS)
    if not url:
        raise SpecError(
            f"--prometheus = nothing, must be a URL of Prometheus (or set {PROMETHEUS}): "
            "`kubectl port-forward -n monitoring svc/prometheus-operated 9090` makes "
            "http://localhost:9090 one"
        )
    if not re.fullmatch(r"https?://\S+", url):
        raise SpecError(f"--prometheus = {url}, must be a URL, as http://localhost:9090")
    return url.rstrip("/")


def _run(target: Target, ask: Callable[[Access], Awaitable[_T]]) -> _T:
    """Ask a cluster one thing."""

    async def run() -> _T:
        async with connected(target) as access:
            return await ask(access)

    return asyncio.run(run())


def main() -> None:
    """Run the plugin."""
    app(prog_name="kubectl neuronfleet")


if __name__ == "__main__":
    main()
