import pytest

from neuronfleet.infra.settings import versions


def test_an_sdk_has_the_amis_that_its_release_notes_allow() -> None:
    assert versions.amis_of("2.28") == ("v20260304", "v20260403")


def test_a_patch_release_has_the_amis_of_its_minor() -> None:
    assert versions.amis_of("2.28.1") == versions.amis_of("2.28")


def test_of_an_sdk_without_known_ami_nothing_is_claimed() -> None:
    assert versions.amis_of("2.32") is None


@pytest.mark.parametrize(
    ("instance_type", "generation", "sdk"),
    [
        ("inf2.xlarge", None, "2.28"),
        ("trn1.32xlarge", 1, "2.28"),
        ("trn2.3xlarge", 2, "2.31"),
        ("trn2.48xlarge", 1, "2.31"),
        ("inf2.xlarge", 2, None),
        ("trn9.large", None, None),
    ],
)
def test_the_newest_sdk_is_one_that_the_chip_runs(
    instance_type: str, generation: int | None, sdk: str | None
) -> None:
    assert versions.newest_sdk(instance_type, generation) == sdk


def test_an_sdk_that_some_backend_of_the_chip_runs_is_no_clash() -> None:
    assert versions.sdk_clash("trn2.48xlarge", "2.28") is None
    assert versions.sdk_clash("trn2.48xlarge", "2.32") is None


def test_an_sdk_that_the_chip_does_not_run_names_its_source() -> None:
    clash = versions.sdk_clash("inf2.xlarge", "2.29")

    assert clash is not None
    assert "at most 2.28 on inf2.xlarge (AWS Neuron SDK 2.32.0, release notes" in clash


@pytest.mark.parametrize(
    ("sdk", "ami", "known"),
    [
        ("2.28", "v20260304", True),
        ("2.28", "v20260403", True),
        ("2.28", "v20260409", False),
        ("2.28", "v20260714", False),
    ],
)
def test_an_ami_is_known_within_the_releases_of_its_driver(sdk: str, ami: str, known: bool) -> None:
    assert versions.ami_known("inf2.xlarge", sdk, ami) is known
