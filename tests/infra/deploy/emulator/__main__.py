"""Serve emulators: each line of standard input, `PORT LEDGER LOG`, forks a fresh one.

Forking, since importing moto and AWS's managed policies takes 3 s and every test wants an account
of its own. Prints the process ID of each; all end with standard input.
"""

import os
import signal
import sys
from pathlib import Path

# Before moto is imported: roles attach managed policies, which then have to exist.
os.environ["MOTO_IAM_LOAD_MANAGED_POLICIES"] = "true"

import moto.server
from moto.backends import get_backend

from tests.infra.deploy.emulator.engine import Engine
from tests.infra.deploy.emulator.providers import (
    build,
    custom,
    eks,
    functions,
    messaging,
    monitoring,
    network,
    recorded,
    storage,
)
from tests.infra.deploy.emulator.registry import Ledger

PROVIDING = (
    build,
    custom,
    eks,
    functions,
    messaging,
    monitoring,
    network,
    recorded,
    storage,
)
"""Imported so that they register."""


ACCOUNT = "123456789012"
"""Moto's own account."""


def serve(port: int, ledger: Path, log: Path) -> None:
    """Serve one account on a port of this machine until killed."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    Engine(f"http://localhost:{port}", Ledger(ledger)).install()
    moto.server.main(["-H", "127.0.0.1", "-p", str(port)])


def main() -> None:
    """Fork an emulator a line."""
    _ = get_backend("iam")[ACCOUNT]["aws"]  # its policies are loaded once, here
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    started = []
    for line in sys.stdin:
        port, ledger, log = line.split()
        if (pid := os.fork()) == 0:
            sys.stdin.close()
            serve(int(port), Path(ledger), Path(log))
        started.append(pid)
        print(pid, flush=True)
    for pid in started:
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            continue


main()
