"""What CodeBuild runs: the project's own image builder, then the digest is recorded."""

import json

HATCHLING = "1.27.0"
_COMMANDS = (
    f"python3 -m pip install --quiet --disable-pip-version-check hatchling=={HATCHLING}",
    "aws ecr get-login-password | docker login --username AWS --password-stdin ${REPOSITORY%%/*}",
    # Tags are immutable: each build has its own.
    "TAG=$REPOSITORY:$(date -u +%Y%m%dt%H%M%Sz)-$CODEBUILD_BUILD_NUMBER",
    "python3 images/build.py $IMAGE --tag $TAG",
    "docker push --quiet $TAG",
    "DIGEST=$(docker inspect --format '{{index .RepoDigests 0}}' $TAG | cut -d@ -f2)",
    "aws ssm put-parameter --overwrite --type String --name $PARAMETER --value $DIGEST",
    'echo "digest of $IMAGE: $DIGEST"',
)


def build_spec() -> str:
    """As text; one shell command list, so that a failing step ends the build."""
    script = "\n".join(("set -euo pipefail", *_COMMANDS))
    spec = {
        "version": "0.2",
        "env": {"shell": "bash"},
        "phases": {
            "install": {"runtime-versions": {"python": "3.13"}},
            "build": {"commands": [script]},
        },
    }
    return json.dumps(spec, indent=1)
