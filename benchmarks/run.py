"""Every measured bar, one after the other (`make bench`). Wants an otherwise idle machine."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
NAMES = ("emulator_streams", "overload", "added_ttft", "many_streams")


def main() -> None:
    """Run each in a process of its own; the exit status is 1 where one missed its bar."""
    missed = []
    for name in NAMES:
        print(f"== {name}", flush=True)
        if subprocess.run([sys.executable, str(HERE / f"{name}.py")], check=False).returncode:
            missed.append(name)
    if missed:
        sys.exit(f"missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
