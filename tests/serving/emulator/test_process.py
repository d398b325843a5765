import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

from neuronfleet.serving.emulator.serve import ReplicaSettings, to_json
from tests.serving.emulator.helpers import Spawn

BODY = {"prompt": "one two", "max_tokens": 60, "stream": True}


def post(port: int, body: dict[str, object]) -> urllib.request.Request:
    """A completion request."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions")
    request.data = json.dumps(body).encode()
    request.add_header("Content-Type", "application/json")
    return request


def status(request: urllib.request.Request | str) -> int:
    """What a request is answered with."""
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_sigterm_refuses_what_comes_and_finishes_what_runs(spawn: Spawn) -> None:
    process = spawn(time_scale=5.0, drain_seconds=60.0)
    port = process.event("listening")["port"]
    with urllib.request.urlopen(post(port, BODY), timeout=10) as stream:
        stream.readline()
        process.signal(signal.SIGTERM)
        process.event("draining")
        refused = status(post(port, BODY)), status(f"http://127.0.0.1:{port}/health")
        text = stream.read().decode()

    assert refused == (503, 503)
    assert text.endswith("data: [DONE]\n\n")
    assert process.child.wait(10) == 0


def test_a_drain_ends_after_its_time(spawn: Spawn) -> None:
    process = spawn(time_scale=1.0, drain_seconds=0.2)
    port = process.event("listening")["port"]
    with urllib.request.urlopen(post(port, BODY | {"max_tokens": 2000}), timeout=10) as stream:
        stream.readline()
        began = time.monotonic()
        process.signal(signal.SIGTERM)
        code = process.child.wait(10)

    assert code == 0
    assert 0.2 <= time.monotonic() - began < 2


def test_a_second_sigterm_exits_at_once(spawn: Spawn) -> None:
    process = spawn(time_scale=1.0, drain_seconds=600.0)
    port = process.event("listening")["port"]
    with urllib.request.urlopen(post(port, BODY | {"max_tokens": 2000}), timeout=10) as stream:
        stream.readline()
        process.signal(signal.SIGTERM)
        process.event("draining")
        process.signal(signal.SIGTERM)

        assert process.child.wait(5) != 0


def test_a_crash_ends_the_process_in_mid_stream(spawn: Spawn) -> None:
    process = spawn("--fault", "crash")
    port = process.event("listening")["port"]
    with (
        contextlib.suppress(OSError, http.client.HTTPException),
        urllib.request.urlopen(post(port, BODY), timeout=10) as stream,
    ):
        stream.read()

    assert process.child.wait(5) == 1


def test_a_port_in_use_ends_the_process_and_says_why(spawn: Spawn) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = spawn(port=taken.getsockname()[1])
        reason = process.event("failed")["reason"]

    assert "address already in use" in reason
    assert process.child.wait(5) == 1


def test_options_override_the_file(spawn: Spawn) -> None:
    process = spawn("--time-scale", "7", "--stream-interval", "3", "--fault", "wrong-text")
    port = process.event("listening")["port"]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/emulator/state", timeout=10) as reply:
        state = json.loads(reply.read())

    assert state["time_scale"] == 7
    assert state["faults"] == ["wrong-text"]
    assert state["pid"] == process.child.pid


def test_wrong_settings_are_told_in_one_line(tmp_path: Path, settings: ReplicaSettings) -> None:
    file = tmp_path / "settings.json"
    file.write_text(json.dumps(json.loads(to_json(settings)) | {"slots": 0}))
    command = [sys.executable, "-m", "neuronfleet.serving.emulator", "--settings", str(file)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)

    assert done.returncode == 1
    assert "slots = 0, must be in [1, 4096]" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_process_holds_several_replicas(tmp_path: Path, settings: ReplicaSettings) -> None:
    both = [json.loads(to_json(replace(settings, models=(name,)))) for name in ("a", "b")]
    file = tmp_path / "settings.json"
    file.write_text(json.dumps(both))
    command = [sys.executable, "-m", "neuronfleet.serving.emulator", "--settings", str(file)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ports = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        for line in child.stdout or ():
            if line.startswith("{") and (event := json.loads(line))["event"] == "listening":
                ports[event["model"]] = event["port"]
            if len(ports) == 2:
                break
        answers = {name: status(post(port, BODY | {"model": name})) for name, port in ports.items()}
        crossed = status(post(ports["a"], BODY | {"model": "b"}))
        child.send_signal(signal.SIGTERM)
        code = child.wait(5)

    assert answers == {"a": 200, "b": 200}
    assert crossed == 404
    assert code == 0


def test_a_replica_dies_with_its_parent(tmp_path: Path, settings: ReplicaSettings) -> None:
    file = tmp_path / "settings.json"
    file.write_text(to_json(settings))
    script = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-m', 'neuronfleet.serving.emulator',"
        f" '--settings', {str(file)!r}, '--die-with-parent'], stdout=subprocess.PIPE)\n"
        "print(child.pid, child.stdout.readline(), flush=True)\n"
        "time.sleep(60)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline().split()[0])
        parent.kill()
        parent.wait()
    for _ in range(200):
        if not Path(f"/proc/{child}").exists() or "Z" in _state(child):
            return
        time.sleep(0.02)
    raise AssertionError(f"{child} outlived its parent")


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return "Z"
