"""`neuronfleet infra`: from a fleet file to what `npx cdk deploy` deploys, and to its end."""

import typer

from neuronfleet.cli import infra_cost, infra_destroy_plan, infra_init, infra_preflight

app = typer.Typer(
    help="Infrastructure on AWS: settings of a fleet, what would fail, what it costs, its end.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
app.command("init", epilog=infra_init.EXAMPLE)(infra_init.command)
app.command("preflight", epilog=infra_preflight.EXAMPLE)(infra_preflight.command)
app.command("cost", epilog=infra_cost.EXAMPLE)(infra_cost.command)
app.command("destroy-plan", epilog=infra_destroy_plan.EXAMPLE)(infra_destroy_plan.command)
