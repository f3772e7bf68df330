"""Captures of a folder and of a bucket: one suite for both."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from datarecs_application.ports.capturing import CaptureSource
from datarecs_connectors.capturing.opening import open_capture_source
from datarecs_connectors.registry import Surroundings
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.resources.connection import (
    Connection,
    ConnectionType,
    FilesConfig,
    ObjectStoreConfig,
)
from datarecs_testing.conformance.capture_files import CaptureFilesConformance, CapturePlace
from datarecs_testing.object_store import ADMIN, ObjectServer

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def around(root: Path) -> Surroundings:
    policy = Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL)
    return Surroundings(roots=(root,), policy=policy, now=lambda: NOON)


@dataclass(frozen=True)
class InFolder:
    root: Path

    def put(self, path: str, content: bytes) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)

    def remove(self, path: str) -> None:
        (self.root / path).unlink()

    def open(self) -> CaptureSource:
        connection = Connection(type=ConnectionType.FILES, config=FilesConfig(root="."))
        return open_capture_source("files", connection, {}, around(self.root))


class TestFolder(CaptureFilesConformance):
    @pytest.fixture
    def place(self, tmp_path: Path) -> CapturePlace:
        root = tmp_path / "files"
        root.mkdir()
        return InFolder(root)


@dataclass(frozen=True)
class InBucket:
    server: ObjectServer
    bucket: str
    root: Path

    def put(self, path: str, content: bytes) -> None:
        self.server.client(self.bucket).put(f"exports/{path}", content)

    def remove(self, path: str) -> None:
        self.server.client(self.bucket).delete(f"exports/{path}")

    def open(self) -> CaptureSource:
        config = ObjectStoreConfig(url=f"s3://{self.bucket}/exports", endpoint=self.server.endpoint)
        connection = Connection(type=ConnectionType.OBJECT_STORE, config=config)
        secrets = {"credentials": ADMIN}
        return open_capture_source("bucket", connection, secrets, around(self.root))


@pytest.mark.integration
class TestBucket(CaptureFilesConformance):
    @pytest.fixture
    def place(self, object_server: ObjectServer, tmp_path: Path) -> CapturePlace:
        return InBucket(object_server, object_server.create_folder(), tmp_path)
