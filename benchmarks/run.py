"""Every measured bar, one after the other: `run.py` (`make bench`), `run.py cluster`.

Wants an otherwise idle machine.
"""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
NAMES = {
    "local": ("emulator_streams", "overload", "added_ttft", "many_streams"),
    "cluster": ("cluster/scale_ins", "cluster/scale"),
}


def main() -> None:
    """Run each in a process of its own; the exit status is 1 where one missed its bar."""
    chosen = sys.argv[1] if len(sys.argv) > 1 else "local"
    if chosen not in NAMES:
        print(f"bars = {chosen}, must be one of {', '.join(NAMES)}", file=sys.stderr)
        sys.exit(2)
    missed = []
    for name in NAMES[chosen]:
        print(f"== {name}", flush=True)
        program = [sys.executable, str(HERE / f"{name}.py")]
        # Those of the cluster use its harness in tests/.
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
        if subprocess.run(program, check=False, env=environment).returncode:
            missed.append(name)
    if missed:
        sys.exit(f"missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
