"""The command as a process: however it is ended, and whenever, nothing of it is left."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import schema
from tests.local_fleet import local_run, serving_fleet

pytestmark = [pytest.mark.peer, pytest.mark.timeout(90)]

SLOW = {"weights": "1000s", "graphs": "0s", "warmUp": "0s"}


def write(path: Path, **run: object) -> Path:
    path.write_text(yaml.safe_dump_all([serving_fleet(), local_run(**run)]))
    return path


class Up:
    """`neuronfleet up` in its own process, with all that it started."""

    def __init__(self, file: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "neuronfleet.cli.main", "up", str(file)),
                *("--record", str(file.with_suffix(".json")), "--port", "18200"),
                *("--page-port", "18280", *options),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )

    def children(self) -> list[int]:
        """Pids of every process below it."""
        found, frontier = [], [self.process.pid]
        while frontier:
            pid = frontier.pop()
            try:
                text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
            except OSError:
                continue
            below = [int(one) for one in text.split()]
            found += below
            frontier += below
        return found

    def wait_for_children(self, count: int) -> list[int]:
        wait(lambda: len(self.children()) >= count, 30)
        return self.children()

    def end(self, number: signal.Signals) -> tuple[float, str, str]:
        """Send a signal; seconds that it took, and what was printed."""
        began = time.monotonic()
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=20)
        return time.monotonic() - began, out, err


def wait(met: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("phase", ["booting", "serving"])
def test_a_signal_ends_every_child_within_5_seconds(
    number: signal.Signals, phase: str, tmp_path: Path
) -> None:
    boot = {"boot": SLOW} if phase == "booting" else {}
    up = Up(write(tmp_path / "fleet.yaml", **boot))
    # Gateway, Prometheus and one replica.
    children = up.wait_for_children(3)
    time.sleep(1.0 if phase == "booting" else 3.0)

    seconds, out, _ = up.end(number)

    assert seconds < 5
    assert not alive(children)
    assert up.process.returncode == 0
    assert "emulated" in out


def test_the_page_answers_within_15_seconds_of_the_command(tmp_path: Path) -> None:
    began = time.monotonic()
    up = Up(write(tmp_path / "fleet.yaml", boot=SLOW))

    wait(page_answers, 15)
    took = time.monotonic() - began
    up.end(signal.SIGTERM)

    assert took < 15


def page_answers() -> bool:
    try:
        with urllib.request.urlopen("http://127.0.0.1:18280/", timeout=1) as answer:
            return b"<title>" in answer.read()
    except OSError:
        return False


def test_a_run_without_traffic_of_its_own_serves_until_it_is_told(tmp_path: Path) -> None:
    up = Up(write(tmp_path / "fleet.yaml"), "--no-traffic")
    up.wait_for_children(3)
    time.sleep(4)

    _, out, err = up.end(signal.SIGTERM)

    assert up.process.returncode == 0
    assert "Traceback" not in err
    assert "emulated" in out


def test_keys_that_cannot_be_read_are_bad_input(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_bytes(b"\xff\xfe")
    up = Up(write(tmp_path / "fleet.yaml"), "--keys", str(keys))

    _, err = up.process.communicate(timeout=30)

    assert up.process.returncode == 2
    assert "keys: not UTF-8 text, must be a readable file of API keys" in err
    assert "Traceback" not in err


def test_a_kill_of_the_command_takes_its_children_along(tmp_path: Path) -> None:
    up = Up(write(tmp_path / "fleet.yaml"))
    children = up.wait_for_children(3)

    up.end(signal.SIGKILL)

    wait(lambda: not alive(children), 5)


def test_a_second_up_works_at_once_beside_the_first_and_after_it(tmp_path: Path) -> None:
    first = Up(write(tmp_path / "one.yaml"))
    first.wait_for_children(3)

    second = Up(write(tmp_path / "two.yaml"))
    second.wait_for_children(3)
    _, _, said = second.end(signal.SIGTERM)
    first.end(signal.SIGTERM)
    third = Up(write(tmp_path / "three.yaml"))
    third.wait_for_children(3)
    _, _, again = third.end(signal.SIGTERM)

    assert "port 18200 is taken; the endpoint is on 18201" in said
    assert "is taken" not in again


def test_a_run_with_an_end_prints_its_record_and_writes_it(tmp_path: Path) -> None:
    file = write(tmp_path / "fleet.yaml", traffic=[{"fleet": "f", "requestsPerSecond": 1.0}])

    out, _ = Up(file, "--for", "60s", "--json").process.communicate(timeout=40)
    printed: dict[str, Any] = json.loads(out)

    schema.check(printed, "run")
    assert printed == json.loads(file.with_suffix(".json").read_text())
    assert printed["duration_s"] >= 60
    assert printed["fleets"][0]["requests"]["offered"] > 0


def test_a_full_disk_loses_the_record_and_not_the_figures(tmp_path: Path) -> None:
    up = Up(write(tmp_path / "fleet.yaml"), "--for", "40s", "--record", "/dev/full")

    out, err = up.process.communicate(timeout=40)

    assert up.process.returncode == 1
    assert "emulated, fleet time" in out
    assert "record = /dev/full: No space left on device, must be a writable file" in err
    assert "Traceback" not in err


def test_a_trace_is_played_and_its_bad_rows_are_counted_and_named(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    rows = [f"{at / 2},{100 + at},20" for at in range(40)]
    trace.write_text("\n".join(["t_s,input_tokens,output_tokens", *rows, "9,many,3", "19,5000,9"]))
    file = write(tmp_path / "fleet.yaml", traffic=[{"shape": "trace", "file": "trace.csv"}])

    out, err = Up(file, "--for", "90s", "--json").process.communicate(timeout=40)

    assert "42 rows, 1 bad, 1 longer than maxModelLen 2048 left out" in err
    assert "line 42" in err
    assert json.loads(out)["fleets"][0]["requests"]["completed"] == 40
