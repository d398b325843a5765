"""Write the committed recording rules (`make rules`)."""

from pathlib import Path

from neuronfleet.monitoring.rules import RuleSettings, render

if __name__ == "__main__":
    target = Path(__file__).parents[1] / "monitoring/rules/fleet.yml"
    target.write_text(render(RuleSettings()))
    print(f"wrote {target.name}")
