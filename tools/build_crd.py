"""Write the committed CRD (`make crd`); with --check, say whether it drifted."""

import sys
from pathlib import Path

from neuronfleet.serving.api import crd

TARGET = Path(__file__).parents[1] / f"serving/crds/{crd.PLURAL}.{crd.GROUP}.yaml"


def main() -> int:
    """Exit status: 1 where --check finds another file than would be written."""
    text = crd.render()
    if "--check" in sys.argv[1:]:
        if not TARGET.exists() or TARGET.read_text() != text:
            print(f"{TARGET.name} is not what serving.api says: run `make crd`", file=sys.stderr)
            return 1
        return 0
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(text)
    print(f"wrote {TARGET.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
