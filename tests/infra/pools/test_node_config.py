import base64
import email
from dataclasses import replace
from email.message import Message

import pytest
import yaml

from neuronfleet.infra.pools.node_config import user_data
from neuronfleet.infra.settings import offers
from neuronfleet.infra.settings.model import Pool
from tests.infra.pools.synthesis import BLOCK, EFA, RESERVED


def parts(pool: Pool) -> dict[str, str]:
    """Bodies of the archive by content type."""
    offer = offers.find(pool.instance_type)
    assert offer is not None
    text = user_data(pool, offer)
    if text is None:
        return {}
    archive: Message = email.message_from_bytes(base64.b64decode(text))
    assert archive.is_multipart()
    assert not archive.defects
    found = {}
    for part in archive.get_payload():
        assert isinstance(part, Message)
        found[part.get_content_type()] = str(part.get_payload())
    return found


@pytest.mark.parametrize("pool", [BLOCK, EFA], ids=lambda pool: pool.name)
def test_local_disks_become_one_array(pool: Pool) -> None:
    (config,) = [yaml.safe_load(text) for text in parts(pool).values()]

    assert (config["apiVersion"], config["kind"]) == ("node.eks.aws/v1alpha1", "NodeConfig")
    assert config["spec"] == {"instance": {"localStorage": {"strategy": "RAID0"}}}


def test_a_type_without_local_disks_is_told_nothing() -> None:
    assert parts(RESERVED) == {}


def test_another_core_size_is_written_where_the_driver_reads_it() -> None:
    script = parts(replace(BLOCK, logical_core_size=1))["text/x-shellscript"]

    assert script.startswith("#!/bin/bash\n")
    assert "mkdir -p /opt/aws/neuron\n" in script
    assert "echo NEURON_LOGICAL_NC_CONFIG=1 > /opt/aws/neuron/logical_nc_config\n" in script


@pytest.mark.parametrize("size", [None, 2])
def test_the_core_size_that_the_type_has_anyway_changes_no_node(size: int | None) -> None:
    assert parts(replace(BLOCK, logical_core_size=size)) == parts(BLOCK)
    assert "text/x-shellscript" not in parts(BLOCK)
