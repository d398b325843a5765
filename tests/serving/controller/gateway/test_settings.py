from pathlib import Path

import pytest

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.controller.gateway.settings import load

POD = {"POD_NAME": "gw-0", "POD_IP": "10.0.0.1", "POD_NAMESPACE": "gateway"}


def test_a_service_is_all_that_has_to_be_said(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_text("service: gw-peers\n")

    settings = load(path, POD)

    assert (settings.pod, settings.pod_ip, settings.namespace) == ("gw-0", "10.0.0.1", "gateway")
    assert (settings.port, settings.tls_port, settings.agent_port) == (8080, 8443, 8090)
    assert settings.keep_alive_s > settings.idle_s
    assert settings.lease_times.lease_s == 2


def test_every_field_has_its_place(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_text(
        "{service: s, namespaces: [a, b], directory: /run/gw, keysFile: /k/keys,"
        " tls: {certificate: /t/tls.crt, key: /t/tls.key, port: 9443},"
        " lease: {name: l, seconds: 4}, queues: {firstPort: 30000, lastPort: 30010},"
        " idleTimeout: 10m, drainTimeout: 1h, mostFleets: 1000}"
    )

    settings = load(path, POD)

    assert settings.namespaces == ("a", "b")
    assert settings.tls_key == Path("/t/tls.key")
    assert settings.queue_ports == (30000, 30010)
    assert (settings.idle_s, settings.drain_s) == (600.0, 3600.0)
    assert (settings.lease, settings.lease_times.renew_s) == ("l", 3.0)


def test_every_problem_is_told_at_once_with_its_field_value_and_range(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_text(
        "{port: 0, tls: {certificate: c}, queues: {firstPort: 9, lastPort: 3}, mostFleet: 1}"
    )

    with pytest.raises(SpecError) as caught:
        load(path, {"POD_IP": "here"})

    said = str(caught.value)
    for problem in (
        "service = nothing, must be given",
        "port = 0, must be in [1, 65535]",
        "tls = one of certificate and key, must have both or neither",
        "queues.lastPort = 3, must be in [firstPort = 9, 65535]",
        "mostFleet = 1, is not a field; did you mean mostFleets?",
        "POD_NAME = nothing, must be set, by the downward API",
        "POD_IP = here, must be an IP address",
    ):
        assert problem in said


def test_a_file_that_is_not_there_or_no_yaml_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="must be a readable YAML file"):
        load(tmp_path / "none", POD)
    (tmp_path / "bad").write_text("{")
    with pytest.raises(SpecError, match="not YAML"):
        load(tmp_path / "bad", POD)
