import contextlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neuronfleet.infra.settings import forms, offers, parse
from neuronfleet.infra.settings.dump import dump
from neuronfleet.infra.settings.model import (
    Admin,
    Block,
    ExistingCluster,
    ExistingNetwork,
    Image,
    Model,
    NewCluster,
    NewNetwork,
    Observability,
    Owner,
    Pool,
    Serving,
    Settings,
    SystemNodes,
)
from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.api.variant import CapacityType

LEAST = (
    "apiVersion: neuronfleet.dev/v1alpha1\nkind: InfraSettings\nname: fleet\nregion: us-east-2\n"
)
POOL = """
pools:
  - name: one
    owner: {owner}
    instanceType: {instance_type}
    capacity: on-demand
    most: 1
    sdk: "2.28"
    amiRelease: v20260403
"""


def of_form(form: forms.Form, most: int = 40) -> st.SearchStrategy[str]:
    return st.from_regex(form.pattern, fullmatch=True).filter(
        lambda text: text.isascii() and len(text) <= most
    )


text = st.text("abc XYZ019:#'\"-_.,éß", min_size=1, max_size=30).map(lambda words: f"x{words}")
texts = st.lists(text, max_size=3).map(tuple)
name = of_form(forms.LABEL, 20)
count = st.integers(1, 1000)
core_size = st.sampled_from([None, 1, 2])
moment = st.datetimes(
    datetime(2026, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC), allow_imaginary=False
)
optional_moment = st.none() | moment
dollars = st.none() | st.floats(1, 10_000)

networks = st.builds(
    NewNetwork,
    cidr=text,
    nat_gateways=st.integers(1, 6),
    flow_log_days=st.sampled_from(forms.RETENTION_DAYS),
) | st.builds(
    ExistingNetwork,
    vpc_id=of_form(forms.VPC),
    cidr=text,
    subnets=st.dictionaries(text, of_form(forms.SUBNET), max_size=3),
    endpoints=st.booleans(),
)
clusters = st.builds(
    NewCluster,
    version=of_form(forms.VERSION),
    public_cidrs=texts,
    admins=st.lists(st.builds(Admin, arn=of_form(forms.PRINCIPAL, 80)), max_size=3).map(tuple),
    system_nodes=st.builds(
        SystemNodes,
        instance_type=text,
        least=count,
        most=count,
        ami_release=st.none() | of_form(forms.SYSTEM_AMI),
    ),
) | st.builds(
    ExistingCluster,
    name=of_form(forms.CLUSTER),
    version=of_form(forms.VERSION),
    endpoint=of_form(forms.ENDPOINT),
    certificate_authority=of_form(forms.BASE64),
    security_group_id=of_form(forms.GROUP),
)
blocks = st.builds(
    Block,
    id=of_form(forms.RESERVATION),
    instance_type=text,
    zone=text,
    count=count,
    starts_at=optional_moment,
    ends_at=optional_moment,
    ultraserver=st.booleans(),
)
models = st.builds(
    Model,
    name=text,
    fleet=of_form(forms.FLEET),
    bytes_per_device=st.integers(1, 2**45),
    tensor_parallel_degree=st.integers(1, 1024),
    logical_core_size=core_size,
)
pools = st.builds(
    Pool,
    name=of_form(forms.POOL_NAME),
    owner=st.sampled_from(Owner),
    instance_type=st.sampled_from(sorted(offers.all_types())) | text,
    capacity=st.sampled_from(CapacityType),
    zones=texts,
    least=st.integers(0, 1000),
    most=count,
    sdk=of_form(forms.SDK, 12),
    ami_release=of_form(forms.AMI),
    ami_reason=st.none() | text,
    efa=st.booleans(),
    logical_core_size=core_size,
    root_gib=st.integers(50, 16_384),
    block=st.none() | blocks,
    usd_per_hour=dollars,
    models=st.lists(models, max_size=2).map(tuple),
)
any_settings = st.builds(
    Settings,
    name=of_form(forms.NAME),
    region=of_form(forms.REGION),
    account=st.none() | of_form(forms.ACCOUNT),
    zones=texts,
    network=networks,
    cluster=clusters,
    pools=st.lists(pools, max_size=2).map(tuple),
    images=st.lists(
        st.builds(Image, name=of_form(forms.IMAGE), digest=st.none() | of_form(forms.DIGEST, 80)),
        max_size=2,
    ).map(tuple),
    observability=st.builds(
        Observability,
        alarm_email=st.none() | st.just("team@example.com"),
        budget_usd_per_month=dollars,
        log_days=st.sampled_from(forms.RETENTION_DAYS),
    ),
    serving=st.builds(
        Serving,
        namespace=name,
        fleet_namespaces=st.lists(name, min_size=1, max_size=3).map(tuple),
        service_account=name,
    ),
    permissions_boundary=st.none() | of_form(forms.POLICY),
    quotas=st.dictionaries(of_form(forms.QUOTA), st.integers(0, 10**6), max_size=3),
    tags=st.dictionaries(text, text, max_size=3),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(any_settings)
def test_what_is_written_is_read_back_the_same(one: Settings) -> None:
    assert parse.parse(dump(one), "dumped") == one


@settings(max_examples=80, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
        max_leaves=8,
    ),
    st.sampled_from(
        ["name", "region", "zones", "network", "cluster", "pools", "images", "quotas", "tags"]
    ),
)
def test_any_value_of_a_field_is_read_or_refused(value: Any, field: str) -> None:
    document = {**yaml.safe_load(LEAST), field: value}

    with contextlib.suppress(SpecError):
        parse.parse(yaml.safe_dump(document), "settings.yaml")


def test_the_least_settings_have_the_defaults_of_the_model() -> None:
    assert parse.parse(LEAST, "settings.yaml") == Settings(name="fleet", region="us-east-2")


@pytest.mark.parametrize(
    ("owner", "instance_type", "efa"),
    [
        ("node-group", "trn2.48xlarge", True),
        ("node-group", "trn1.32xlarge", True),
        ("node-group", "trn2.3xlarge", False),
        ("node-group", "inf2.48xlarge", False),
        ("karpenter", "trn1.32xlarge", False),
    ],
)
def test_efa_is_on_where_many_nodes_use_it(owner: str, instance_type: str, efa: bool) -> None:
    text = LEAST + POOL.format(owner=owner, instance_type=instance_type)

    assert parse.parse(text, "settings.yaml").pools[0].efa is efa


def test_times_are_read_as_utc() -> None:
    block = (
        "    block: {id: cr-01234567, instanceType: a, zone: b, count: 1,"
        " endsAt: '2027-03-01T11:30:00+02:00'}\n"
    )
    text = LEAST + POOL.format(owner="node-group", instance_type="trn1.32xlarge") + block

    found = parse.parse(text, "settings.yaml").pools[0].block

    assert found is not None
    assert found.ends_at == datetime(2027, 3, 1, 9, 30, tzinfo=UTC)
    assert found.ends_at.tzinfo is UTC


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("name: a\nname: b\n", "field name is given twice"),
        (":\n  - [", "not YAML"),
        ("", "0 documents"),
        (LEAST + "---\n" + LEAST, "2 documents"),
        ("- name: a\n", "must be a mapping of fields"),
    ],
)
def test_what_is_no_settings_file_is_refused(text: str, error: str) -> None:
    with pytest.raises(SpecError, match=error):
        parse.parse(text, "settings.yaml")


def test_a_file_that_is_not_there_is_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"absent\.yaml: .*must be a readable settings file"):
        parse.load(tmp_path / "absent.yaml")


def test_a_file_is_read_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(LEAST)

    assert parse.load(file).region == "us-east-2"
