"""Entry point of the `neuronfleet` command."""

import typer

from neuronfleet.cli import emulate, infra, plan, up, validate

app = typer.Typer(
    name="neuronfleet",
    help="Serve open models on AWS Trainium and Inferentia at the lowest honest cost per token.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.command("plan", epilog=plan.EXAMPLE)(plan.command)
app.command("up", epilog=up.EXAMPLE)(up.command)
app.command("validate", epilog=validate.EXAMPLE)(validate.command)
app.command("emulate", epilog=emulate.EXAMPLE)(emulate.command)
app.add_typer(infra.app, name="infra")


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
