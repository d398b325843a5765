#!/usr/bin/env python3
"""Synthesis of the full example against a bare app: benchmarks/infra/synth.py [--runs 3].

Both run in fresh processes, in turn, as `cdk synth` starts them; the least of the runs counts.
Bars: at most 2.5 s over the bare app and 10 s in all. It ends with 1 where one is missed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-infra/bin/python"
OVER_BARE_S = 2.5
IN_ALL_S = 10.0
BARE = """
import json, os
import aws_cdk as cdk
from aws_cdk import aws_s3 as s3
context = json.load(open("cdk.json"))["context"]
app = cdk.App(context=context, outdir=os.environ["CDK_OUTDIR"], analytics_reporting=False)
s3.Bucket(cdk.Stack(app, "Bare"), "Bucket")
app.synth()
"""


def seconds(arguments: list[str], settings: Path) -> float:
    """One run in a process of its own, from its start to its end."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            "PATH": f"{ROOT / 'node_modules/.bin'}:{os.environ['PATH']}",
            "HOME": os.environ["HOME"],
            "PYTHONPATH": os.pathsep.join(str(ROOT / one) for one in ("infra", "serving")),
            "CDK_OUTDIR": folder,
            "CDK_CONTEXT_JSON": f'{{"settings": "{settings}", "now": "2026-12-01T00:00:00Z"}}',
        }
        start = time.perf_counter()
        subprocess.run(
            [str(PYTHON), *arguments], cwd=ROOT, env=environment, check=True, capture_output=True
        )
        return time.perf_counter() - start


def main() -> int:
    """Measure, print and judge."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("--runs", type=int, default=3)
    line.add_argument("--settings", type=Path, default=ROOT / "examples/infra/us-east-2.yaml")
    options = line.parse_args()
    bare, full = [], []
    for _ in range(options.runs):
        bare.append(seconds(["-c", BARE], options.settings))
        full.append(seconds(["-m", "neuronfleet.infra.app"], options.settings))
    over = min(full) - min(bare)
    print(f"bare app      {min(bare):6.2f} s   (of {', '.join(f'{one:.2f}' for one in bare)})")
    print(f"full example  {min(full):6.2f} s   (of {', '.join(f'{one:.2f}' for one in full)})")
    print(f"difference    {over:6.2f} s   bars: {OVER_BARE_S} s over bare, {IN_ALL_S} s in all")
    return 0 if over <= OVER_BARE_S and min(full) <= IN_ALL_S else 1


if __name__ == "__main__":
    sys.exit(main())
