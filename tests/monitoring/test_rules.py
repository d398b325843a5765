"""Recording rules: committed as built, accepted by promtool, right on made-up series."""

import subprocess
from pathlib import Path

import pytest
import yaml

from neuronfleet.monitoring.rules import RuleSettings, fleet_rules, render

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "monitoring/rules/fleet.yml"


def test_the_committed_rules_are_what_the_builder_makes() -> None:
    assert COMMITTED.read_text() == render(RuleSettings()), "run `make rules`"


def test_rates_are_in_the_fleet_s_own_time_under_a_time_scale() -> None:
    scaled = fleet_rules(RuleSettings(time_scale=20))["groups"][0]["rules"]
    by_name = {rule["record"]: rule["expr"] for rule in scaled}

    assert by_name["fleet:arrivals:rate"].endswith(" / 20")
    assert by_name["fleet:output_tokens:rate"].endswith(" / 20")
    assert "/ 20" not in by_name["fleet:prompt_tokens:mean"]


SESSIONS = "haproxy_server_current_sessions"

CASES = {
    "rule_files": ["rules.yml"],
    "evaluation_interval": "15s",
    "tests": [
        {
            "interval": "15s",
            "input_series": [
                {"series": f'{SESSIONS}{{proxy="a",server="r1"}}', "values": "3x20"},
                {"series": f'{SESSIONS}{{proxy="a",server="r2"}}', "values": "5x20"},
                {"series": f'{SESSIONS}{{proxy="_x",server="r2"}}', "values": "9x20"},
                {"series": 'haproxy_backend_current_queue{proxy="a"}', "values": "7x20"},
                {
                    "series": 'haproxy_backend_http_requests_total{proxy="a"}',
                    "values": "0+30x20",
                },
                {
                    "series": 'vllm:request_prompt_tokens_sum{fleet="a",replica="r1"}',
                    "values": "0+1000x20",
                },
                {
                    "series": 'vllm:request_prompt_tokens_count{fleet="a",replica="r1"}',
                    "values": "0+2x20",
                },
                {
                    "series": 'vllm:request_prompt_tokens_count{fleet="idle",replica="r1"}',
                    "values": "0x20",
                },
            ],
            "promql_expr_test": [
                {
                    "expr": "fleet:in_flight:sum",
                    "eval_time": "5m",
                    "exp_samples": [{"labels": 'fleet:in_flight:sum{fleet="a"}', "value": 8}],
                },
                {
                    "expr": "fleet:queued:sum",
                    "eval_time": "5m",
                    "exp_samples": [{"labels": 'fleet:queued:sum{fleet="a"}', "value": 7}],
                },
                {
                    "expr": "fleet:arrivals:rate",
                    "eval_time": "5m",
                    "exp_samples": [{"labels": 'fleet:arrivals:rate{fleet="a"}', "value": 2}],
                },
                {
                    # No request is no mean: the idle fleet has no sample, not a zero.
                    "expr": "round(fleet:prompt_tokens:mean)",
                    "eval_time": "5m",
                    "exp_samples": [{"labels": '{fleet="a"}', "value": 500}],
                },
            ],
        }
    ],
}  # fmt: skip


@pytest.mark.peer
def test_promtool_finds_the_values_that_were_worked_out_by_hand(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(render(RuleSettings()))
    (tmp_path / "cases.yml").write_text(yaml.safe_dump(CASES))

    done = subprocess.run(
        ["promtool", "test", "rules", "cases.yml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
