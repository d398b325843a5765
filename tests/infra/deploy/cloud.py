"""An emulated AWS account of its own, and the CDK command line against it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3

ROOT = Path(__file__).parents[3]
ACCOUNT = "123456789012"
"""Moto's own account."""
START_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a command of the CLI ended."""

    status: int
    text: str
    """Standard output and error together."""
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """One resource of the emulator's ledger."""

    stack: str
    logical_id: str
    type: str
    ref: str
    properties: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """One emulator, empty at its start."""

    endpoint: str
    region: str
    ledger: Path
    work: Path

    def client(self, service: str) -> Any:
        """A boto3 client of the account."""
        return boto3.client(
            service,
            region_name=self.region,
            endpoint_url=self.endpoint,
            aws_access_key_id="emulated",
            aws_secret_access_key="emulated",
        )

    def cdk(self, *arguments: str, seconds: float = 200) -> Outcome:
        """Run the pinned CDK command line against this account.

        Never with --concurrency: moto finds change sets by name alone, and the CLI's have one name.
        """
        started = time.monotonic()
        done = subprocess.run(
            [str(ROOT / "node_modules/.bin/cdk"), *arguments, "--ci", "--no-notices"],
            cwd=ROOT,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        return Outcome(
            status=done.returncode,
            text=done.stdout + done.stderr,
            seconds=time.monotonic() - started,
        )

    def _environment(self) -> dict[str, str]:
        outside = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
        return outside | {
            "PATH": f"{ROOT / 'node_modules/.bin'}:{outside.get('PATH', '')}",
            "HOME": str(self.work),
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "emulated",
            "AWS_SECRET_ACCESS_KEY": "emulated",
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_EC2_METADATA_DISABLED": "true",
            "CDK_DISABLE_CLI_TELEMETRY": "true",
        }

    def create(self, stack: str, template: Mapping[str, Any]) -> str | None:
        """Create a stack of a template as the CLI does; why it failed, None where it did not."""
        cloudformation = self.client("cloudformation")
        named = {"StackName": stack, "ChangeSetName": "create"}
        cloudformation.create_change_set(
            **named, ChangeSetType="CREATE", TemplateBody=json.dumps(template)
        )
        cloudformation.execute_change_set(**named)
        [found] = cloudformation.describe_stacks(StackName=stack)["Stacks"]
        return None if found["StackStatus"] == "CREATE_COMPLETE" else found["StackStatusReason"]

    def created(self, resource_type: str | None = None) -> list[Created]:
        """What the ledger has, of one type or of all."""
        lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
        found = [Created(**json.loads(line)) for line in lines]
        return [item for item in found if resource_type in (None, item.type)]

    def stacks(self) -> dict[str, str]:
        """Status of each stack."""
        listed = self.client("cloudformation").describe_stacks()["Stacks"]
        return {stack["StackName"]: stack["StackStatus"] for stack in listed}


class Emulators:
    """One process that has imported moto and forks a fresh account for each that asks."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.infra.deploy.emulator"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """End it and what it forked."""
        self._process.communicate(timeout=10)

    @contextmanager
    def cloud(self, work: Path, region: str = "us-east-2") -> Iterator[Cloud]:
        """Start an account on a free port; it ends with the block."""
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = int(listener.getsockname()[1])
        ledger, log = work / "ledger.jsonl", work / "emulator.log"
        pid = self._fork(f"{port} {ledger} {log}")
        try:
            _wait(port, log)
            # By name: of 127.0.0.1 moto would read the bucket "127" of the template's address.
            yield Cloud(
                endpoint=f"http://localhost:{port}", region=region, ledger=ledger, work=work
            )
        finally:
            os.kill(pid, signal.SIGTERM)

    def _fork(self, line: str) -> int:
        process = self._process
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the emulator's process has no pipes")
        process.stdin.write(line + "\n")
        process.stdin.flush()
        return int(process.stdout.readline())


def _wait(port: int, log: Path) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except ConnectionError:
            time.sleep(0.02)
        else:
            return
    raise RuntimeError(f"the emulator did not start: {log.read_text()[-2000:]}")
