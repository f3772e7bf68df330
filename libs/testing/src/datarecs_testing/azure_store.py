"""Azurite on the loopback: the blob service of Azure, if its program is installed."""

import base64
import hashlib
import hmac
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from threading import Event
from urllib.parse import urlencode

from datarecs_testing.object_store import ObjectStoreMissingError
from datarecs_testing.smtp_server import free_port

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The published key of the emulator's account."""
_START_S = 60
_VERSION = "2020-08-04"
_numbers = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureServer:
    """A running emulator."""

    port: int
    process: "subprocess.Popen[bytes]"

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}/{ACCOUNT}"

    def create_container(self) -> str:
        """An empty container."""
        name = f"container-{next(_numbers)}"
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        target = f"/{ACCOUNT}/{name}?restype=container&{_signature_of_account()}"
        connection.request("PUT", target, headers={"Content-Length": "0"})
        status = connection.getresponse().status
        connection.close()
        if status != 201:
            raise RuntimeError(f"container {name} was not created: {status}")
        return name

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def signature(container: str) -> str:
    """A SAS token with all rights in a container.

    Not one of the account: Azurite answers 500 to a batch of deletions that such a token signs.
    """
    fields = {"sp": "racwdl", "st": "", "se": "2099-01-01T00:00:00Z"}
    place = f"/blob/{ACCOUNT}/{container}"
    rest = {"spr": "https,http", "sv": _VERSION, "sr": "c"}
    identifier, address, snapshot_and_headers = "", "", [""] * 6
    text = "\n".join(
        [*fields.values(), place, identifier, address, *rest.values(), *snapshot_and_headers]
    )
    values = {name: value for name, value in {**fields, **rest}.items() if value}
    return urlencode({**values, "sig": _signed(text)})


def _signature_of_account() -> str:
    """A SAS token with all rights in the account, to create containers with."""
    fields = {
        "sp": "rwdlac",
        "ss": "b",
        "srt": "sco",
        "st": "",
        "se": "2099-01-01T00:00:00Z",
        "sip": "",
        "spr": "https,http",
        "sv": _VERSION,
    }
    text = "\n".join([ACCOUNT, *fields.values(), ""])
    values = {name: value for name, value in fields.items() if value}
    return urlencode({**values, "sig": _signed(text)})


def _signed(text: str) -> str:
    digest = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
    return base64.b64encode(digest).decode()


def start_azure_store(directory: Path) -> AzureServer:
    """Raises ObjectStoreMissingError if the program is missing or does not start."""
    program = shutil.which("azurite-blob")
    if program is None:
        raise ObjectStoreMissingError("there is no program `azurite-blob`; npm install -g azurite")
    port, folder = free_port(), directory / "azure"
    process = subprocess.Popen(
        [
            *(program, "--silent", "--skipApiVersionCheck", "--disableTelemetry"),
            *("--location", str(folder), "--blobPort", str(port)),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    server, pause = AzureServer(port=port, process=process), Event()
    for _ in range(_START_S * 10):
        if process.poll() is not None:
            break
        with suppress(OSError, RuntimeError):
            server.create_container()
            return server
        pause.wait(0.1)
    server.stop()
    raise ObjectStoreMissingError("Azurite does not start")
