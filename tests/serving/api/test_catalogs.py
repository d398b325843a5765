"""Hardware, prices and evidence: facts with sources, nothing invented, nothing overwritten."""

import dataclasses
import hashlib
from datetime import date
from importlib import resources

import pytest

from neuronfleet.serving.api import evidence, hardware, prices
from neuronfleet.serving.api.problems import SpecError

FACTS = (
    "accelerators", "cores", "hbm_gib", "hbm_gb_per_s", "bf16_tflops", "fp8_tflops", "vcpus",
    "memory_gib", "network_gbps", "efa_interfaces", "link_gb_per_s",
)  # fmt: skip


@pytest.mark.parametrize("one", hardware.catalog().values(), ids=lambda one: one.name)
def test_every_known_fact_names_its_source_and_no_fact_is_zero_by_default(
    one: hardware.InstanceType,
) -> None:
    for name in FACTS:
        value = getattr(one, name)
        if value is not None:
            assert one.sources[name], name
            assert value > 0 or name == "efa_interfaces"


def test_the_catalog_has_the_study_s_gpus_and_every_neuron_family() -> None:
    known = hardware.catalog()

    assert {"mi300x", "h200", "g5.2xlarge", "g6e.xlarge"} <= set(known)
    families = {one.family for one in known.values() if one.is_neuron}
    assert families == {"inferentia2", "trainium1", "trainium2", "trainium3"}
    assert known["trn2.3xlarge"].vcpus is None


def test_sixteen_replicas_of_tp_4_share_a_trn2_48xlarge() -> None:
    one = hardware.instance_type("trn2.48xlarge")

    assert one.logical_cores(2) == 64
    assert one.share(4, 2) == 1 / 16


def test_820_gibibytes_a_second_are_880_gigabytes() -> None:
    assert hardware.instance_type("inf2.xlarge").hbm_gb_per_s == pytest.approx(880.5, abs=0.1)


def test_an_unknown_type_names_the_nearest() -> None:
    with pytest.raises(SpecError, match=r"did you mean trn1\.2xlarge"):
        hardware.instance_type("trn1.2xlrge")


def test_a_price_is_found_by_type_market_and_region_and_missing_where_unknown() -> None:
    catalog = prices.newest()
    inf2 = catalog.find("inf2.xlarge", "on-demand")

    assert inf2 is not None
    assert inf2.usd_per_hour == 0.7582
    assert catalog.find("inf2.xlarge", "spot") is None
    assert catalog.find("inf2.xlarge", "on-demand", ["eu-west-1"]) is None
    assert catalog.find("trn2.48xlarge", "on-demand") is None
    block = catalog.find("trn2.3xlarge", "capacity-block", ["sa-east-1"])
    assert block is not None
    assert block.usd_per_hour == 2.235


def test_the_newest_price_wins_over_an_older_one() -> None:
    trn1 = prices.newest().find("trn1.2xlarge", "on-demand")

    assert trn1 is not None
    assert (trn1.usd_per_hour, trn1.as_of) == (1.34, date(2026, 7, 31))


def test_price_catalogs_are_dated_and_never_overwritten() -> None:
    folder = resources.files(prices.__package__ or "").joinpath("prices")
    lines = folder.joinpath("SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split() for line in lines)}
    files = {f.name: f.read_bytes() for f in folder.iterdir() if f.name.endswith(".json")}

    assert {name: hashlib.sha256(data).hexdigest() for name, data in files.items()} == sums
    for name, data in files.items():
        assert prices.parse(data.decode(), name).dated.isoformat() == name.removesuffix(".json")


def test_a_price_of_zero_is_refused_since_unknown_is_not_free() -> None:
    text = (
        '{"date": "2026-01-01", "prices": [{"instance_type": "x", "capacity_type": "spot", '
        '"region": "r", "usd_per_hour": 0, "source": "s", "as_of": "2026-01-01"}]}'
    )

    with pytest.raises(SpecError, match="must be above 0"):
        prices.parse(text, "x.json")


def test_every_evidence_row_names_its_source_and_failed_runs_are_kept() -> None:
    points = evidence.serve_points()

    assert all(" at " in point.source for point in (*points, *evidence.gpu_points()))
    assert [p.status for p in points].count("ok") == 27
    assert {p.model for p in points if p.status == "failed"} == {"Qwen3-8B"}
    assert all(
        dataclasses.astuple(p.figures)[1:] == (None, None, None) for p in evidence.gpu_points()
    )


def test_prompt_tokens_are_those_the_server_saw() -> None:
    mistral = [p for p in evidence.serve_points() if p.model.startswith("Mistral")]

    assert {(p.input_tokens, p.prompt_tokens) for p in mistral} == {(1024, 1023)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model,isl_tokens\n", "columns = osl_tokens, concurrency, status missing"),
        ("model,isl_tokens,osl_tokens,concurrency,status\nm,many,1,1,ok\n", "row 2, isl_tokens"),
        ("model,isl_tokens,osl_tokens,concurrency,status\nm,1,,1,ok\n", "osl_tokens = nothing"),
        ("model,isl_tokens,osl_tokens,concurrency,status\nm,1,1,0,ok\n", "concurrency = 0"),
        ("model,isl_tokens,osl_tokens,concurrency,status\nm,1,1,1e8,ok\n", "concurrency = 1e8"),
        ("model\n" + "x" * 200_000, "must be a CSV file"),
    ],
)
def test_wrong_evidence_names_row_column_and_value(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        evidence.parse_serve_points(text, "x.csv")
