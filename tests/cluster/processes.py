"""Processes that outlive the command that started them, known by pid and time of start."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.cluster import cgroups
from tests.cluster.errors import ClusterError

# The shell enters the control group, so that the program and all its children are born there.
_LAUNCH = 'echo $$ >"$0" || exit; log=$1; shift; "$@" >>"$log" 2>&1 </dev/null & echo $!'


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """One process and how to start it again."""

    name: str
    arguments: tuple[str, ...]
    log: str
    env: Mapping[str, str] = field(default_factory=dict)
    """What is added to the environment."""
    pid: int = 0
    started: int = 0
    """Start in clock ticks since the boot of the machine: tells a reused pid apart."""


def start(daemon: Daemon) -> Daemon:
    """Start it in the cluster's control group; the result knows its pid."""
    entry = (str(cgroups.daemons_file()), daemon.log)
    said = subprocess.run(
        ("/bin/sh", "-c", _LAUNCH, *entry, *daemon.arguments),
        env={**os.environ, **daemon.env},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        start_new_session=True,
    ).stdout
    pid = int(said)
    return replace(daemon, pid=pid, started=start_time(pid) or 0)


def start_time(pid: int) -> int | None:
    """When a process started, in ticks since boot; None where it has ended."""
    try:
        # The name may hold spaces and brackets: the fields are counted after its last bracket.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def alive(daemon: Daemon) -> bool:
    """Whether this very process runs."""
    return daemon.pid > 0 and start_time(daemon.pid) == daemon.started


def send(daemon: Daemon, number: signal.Signals) -> bool:
    """Signal this very process; whether it was there."""
    try:
        handle = os.pidfd_open(daemon.pid)
    except OSError:
        return False
    try:
        # The handle is of one process; only now is its start compared, so that no other is hit.
        if not alive(daemon):
            return False
        signal.pidfd_send_signal(handle, number)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)


def stop(daemon: Daemon, grace_s: float = 5.0) -> None:
    """End it: SIGTERM, and SIGKILL where it is still there after the grace."""
    # A stopped process takes no SIGTERM before it is continued.
    send(daemon, signal.SIGCONT)
    if not send(daemon, signal.SIGTERM):
        return
    if not _ended(daemon, grace_s):
        send(daemon, signal.SIGKILL)
        _ended(daemon, grace_s)


def _ended(daemon: Daemon, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while alive(daemon):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def wait_for(
    predicate: Callable[[], bool],
    what: str,
    timeout_s: float,
    daemons: Sequence[Daemon] = (),
    every_s: float = 0.2,
) -> None:
    """Wait until `predicate` holds.

    Raises:
        ClusterError: it did not in time, or one of `daemons` ended; with the log's last lines.
    """
    deadline = time.monotonic() + timeout_s
    while not predicate():
        dead = [daemon for daemon in daemons if not alive(daemon)]
        if dead or time.monotonic() > deadline:
            reason = f"{dead[0].name} ended" if dead else f"not within {timeout_s:.0f} s"
            raise ClusterError(f"{what}: {reason}{last_words(dead or daemons)}")
        time.sleep(every_s)


def last_words(daemons: Sequence[Daemon]) -> str:
    """The last lines of each log, to be shown after an error."""
    said = []
    for daemon in daemons:
        path = Path(daemon.log)
        lines = path.read_text(errors="replace").splitlines()[-8:] if path.exists() else []
        said.append("\n".join((f"\n{path}:", *(f"  {line[:300]}" for line in lines))))
    return "".join(said)


def run(
    *arguments: str,
    given: str | None = None,
    timeout_s: float = 120.0,
    env: Mapping[str, str] | None = None,
) -> str:
    """Run a command to its end, `env` added to its environment, and return what it printed.

    Raises:
        ClusterError: it is missing, failed or did not end in time.
    """
    try:
        done = subprocess.run(
            arguments,
            input=given,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env={**os.environ, **(env or {})},
        )
    except FileNotFoundError as wrong:
        raise ClusterError(f"{arguments[0]} was not found: install it") from wrong
    except subprocess.TimeoutExpired as wrong:
        raise ClusterError(f"{' '.join(arguments)[:200]}: not within {timeout_s:.0f} s") from wrong
    if done.returncode != 0:
        said = f"{done.stdout.strip()[-1000:]}\n{done.stderr.strip()[-2000:]}".strip()
        raise ClusterError(f"{' '.join(arguments)[:200]}: {said}")
    return done.stdout
