"""Which folders the child opens for a tenant, by the settings of its supervisor."""

from pathlib import Path
from uuid import UUID

import pytest

from datarecs_application.child_frames import Reader
from datarecs_connectors.registry import open_connector
from datarecs_connectors.surroundings import surroundings_of
from datarecs_core.egress.addresses import Profile
from datarecs_core.errors.base import DatarecsError
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import Connection, ConnectionType, FilesConfig
from datarecs_core.values import TenantId
from datarecs_reconciliation_worker.settings import Settings
from datarecs_reconciliation_worker.wiring import hello_frame
from datarecs_runtime.blob_section import Blob
from datarecs_runtime.clock import SystemClock
from datarecs_runtime.sections import Files, Secrets, Worker

A, B = TenantId(UUID(int=1)), TenantId(UUID(int=2))


def settings(folder: Path, files: Files) -> Settings:
    return Settings.model_construct(
        profile=Profile.LOCAL,
        files=files,
        blob=Blob(url=(folder / "kept/blobs").as_uri()),
        worker=Worker(scratch_dir=folder / "kept/scratch"),
        secrets=Secrets(file_root=folder / "kept/tenants"),
    )


def hello(folder: Path, files: Files) -> Reader:
    return Reader(hello_frame(settings(folder, files), folder / "child"))


def test_each_tenant_has_a_separate_folder_below_a_root(tmp_path: Path) -> None:
    frame = hello(tmp_path, Files(roots=(tmp_path,)))
    assert surroundings_of(frame, A, SystemClock().now).roots == (tmp_path / str(A),)
    assert surroundings_of(frame, B, SystemClock().now).roots == (tmp_path / str(B),)


def test_only_the_owner_reads_the_roots(tmp_path: Path) -> None:
    frame = hello(tmp_path, Files(roots=(tmp_path,), owner=A))
    assert surroundings_of(frame, A, SystemClock().now).roots == (tmp_path,)
    assert surroundings_of(frame, B, SystemClock().now).roots == ()


def test_a_local_worker_without_roots_has_the_project_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert surroundings_of(hello(tmp_path, Files(owner=A)), A, SystemClock().now).roots == (
        tmp_path,
    )


@pytest.mark.parametrize(
    "place",
    [
        ".datarecs/secrets/kek",
        "kept/blobs/report.csv",
        "kept/scratch/credentials.json",
        "kept/tenants/1/password",
        "data/closed/a.csv",
        "secrets/kek",
        "settings/database_url",
        "datarecs.toml",
    ],
)
def test_what_settings_name_is_closed_to_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATARECS_SECRETS__KEK_FILE", str(tmp_path / "secrets/kek"))
    monkeypatch.setenv("DATARECS_SECRETS_DIR", str(tmp_path / "settings"))
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text("id\ns3cret\n")
    files = Files(roots=(tmp_path,), owner=A, excluded=(tmp_path / "data/closed",))
    around = surroundings_of(hello(tmp_path, files), A, SystemClock().now)
    connection = Connection(type=ConnectionType.FILES, config=FilesConfig(root="."))
    source = Source(name="s", kind=SourceKind.CSV, connection="c", path=place)
    with pytest.raises(DatarecsError) as caught:
        open_connector(source, connection, {}, surroundings=around).pin(source)
    assert caught.value.code.name == "PATH_REFUSED"
