"""Artefacts in an object store: what the child of a worker receives of it."""

from pathlib import Path
from uuid import UUID

import pytest
from pydantic import SecretStr, ValidationError

from datarecs_application.child_frames import Reader
from datarecs_connectors.surroundings import surroundings_of
from datarecs_core.egress.addresses import Profile
from datarecs_core.resources.store_servers import BucketAddress
from datarecs_core.values import TenantId
from datarecs_reconciliation_worker.settings import Settings
from datarecs_reconciliation_worker.wiring import hello_frame
from datarecs_runtime import child_surroundings
from datarecs_runtime.blob_section import Blob
from datarecs_runtime.child_surroundings import child_environment, private_places
from datarecs_runtime.clock import SystemClock
from datarecs_runtime.sections import Files, Secrets, Worker

TENANT_A = TenantId(UUID(int=1))


def settings(folder: Path, blob: Blob) -> Settings:
    return Settings.model_construct(
        profile=Profile.LOCAL,
        files=Files(),
        blob=blob,
        worker=Worker(scratch_dir=folder / "scratch"),
        secrets=Secrets(),
    )


def hello(folder: Path, blob: Blob) -> Reader:
    return Reader(hello_frame(settings(folder, blob), folder / "child"))


def test_the_child_does_not_receive_the_credentials_of_the_store(tmp_path: Path) -> None:
    blob = Blob(url="s3://artefacts/x", credentials=SecretStr("AKIA:f7"))
    frame = hello_frame(settings(tmp_path, blob), tmp_path / "child")
    assert "AKIA:f7" not in str(frame)


def test_the_bucket_of_artefacts_is_closed_to_sources(tmp_path: Path) -> None:
    frame = hello(tmp_path, Blob(url="s3://artefacts/x", region="eu-west-1"))
    bucket = surroundings_of(frame, TENANT_A, SystemClock().now).platform_bucket
    assert bucket is not None
    assert (bucket.host, bucket.bucket) == ("s3.eu-west-1.amazonaws.com", "artefacts")
    in_azure = surroundings_of(
        hello(tmp_path, Blob(url="az://artefacts/x")), TENANT_A, SystemClock().now
    )
    assert in_azure.platform_bucket == BucketAddress(host=None, bucket="artefacts")
    in_a_folder = hello(tmp_path, Blob(url=tmp_path.as_uri()))
    assert surroundings_of(in_a_folder, TENANT_A, SystemClock().now).platform_bucket is None


def test_the_server_of_the_bucket_may_be_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {"AWS_ENDPOINT_URL": "https://minio:9000"}
    monkeypatch.setattr(child_surroundings, "process_environment", lambda: environment)
    frame = hello(tmp_path, Blob(url="s3://artefacts/x"))
    bucket = surroundings_of(frame, TENANT_A, SystemClock().now).platform_bucket
    assert bucket == BucketAddress(host="minio", bucket="artefacts")


def test_a_bucket_is_no_folder_that_is_closed_to_sources(tmp_path: Path) -> None:
    places = private_places(settings(tmp_path, Blob(url="s3://artefacts/x")), tmp_path / "scratch")
    assert Path("/x") not in places
    assert tmp_path / "scratch" in places


def test_the_child_does_not_inherit_the_identity_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    environment = {"PATH": "/bin", "AWS_ROLE_ARN": "arn", "DATARECS_SECRETS__KEK": "k", "OTHER": ""}
    monkeypatch.setattr(child_surroundings, "process_environment", lambda: environment)
    assert child_environment(tmp_path).keys() == {"PATH", "TMPDIR"}


@pytest.mark.parametrize(
    "fields",
    [
        {"url": "ftp://host/x"},
        {"url": "s3://bucket", "endpoint": "https://user:password@host"},
        {"url": "s3://bucket", "endpoint": "minio:9000"},
        {"url": "s3://bucket", "endpoint": "https://minio:9000/artefacts"},
        {"url": "s3://prod", "endpoint": "https://artefacts.s3.eu-west-1.amazonaws.com"},
        {"url": "s3://bucket", "region": "EU West"},
    ],
)
def test_a_setting_that_cannot_work_is_refused(fields: dict[str, str]) -> None:
    with pytest.raises(ValidationError) as caught:
        Blob.model_validate(fields)
    assert "password" not in str(caught.value)
