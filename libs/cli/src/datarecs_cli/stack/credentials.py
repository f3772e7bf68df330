"""The secrets of one local platform: random, created once, one 0600 file each, never printed.

Services read the files, so no secret is in an argument or an environment.
"""

import base64
import os
import secrets
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

KEK_BYTES = 32


class LocalSecrets:
    """The folder `secrets`; a requested secret is created if it does not exist."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, name: str) -> Path:
        return self._folder / name

    def password(self, name: str) -> str:
        """The password of that name, created on the first call."""
        path = self.path(name)
        if not path.exists():
            write_private(path, secrets.token_urlsafe(24).encode())
        return path.read_text(encoding="utf-8")

    def password_file(self, name: str) -> Path:
        """The file of that password, created on the first call."""
        self.password(name)
        return self.path(name)

    def passwords(self, names: Iterable[str]) -> dict[str, str]:
        return {name: self.password(name) for name in names}

    def kek(self) -> Path:
        """The key-encryption key's file: 32 random bytes in base64, as DATARECS_SECRETS__KEK."""
        path = self.path("kek")
        if not path.exists():
            write_private(path, base64.urlsafe_b64encode(secrets.token_bytes(KEK_BYTES)))
        return path

    def put(self, name: str, text: str) -> Path:
        """Write a text derived from a secret, such as a database URL, and return its file."""
        path = self.path(name)
        write_private(path, text.encode())
        return path


def write_private(path: Path, content: bytes) -> None:
    """Replace the file atomically; its mode is 0600 from the first byte."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as target:
        target.write(content)
    draft.replace(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The login for people on this machine."""

    server: str
    """Base URL of the API."""
    tenant: str
    tenant_id: str
    api_key: str = field(repr=False)


def read_credentials(path: Path) -> Credentials | None:
    """The first admin key of tenant `default`; None before it is created."""
    try:
        written: Mapping[str, Mapping[str, str]] = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return Credentials(**written["local"])


def write_credentials(path: Path, credentials: Credentials) -> None:
    """TOML; every value is generated plain text without quotes."""
    lines = (
        "# The local platform's first API key: anyone who can read this file is administrator.",
        "[local]",
        f'server = "{credentials.server}"',
        f'tenant = "{credentials.tenant}"',
        f'tenant_id = "{credentials.tenant_id}"',
        f'api_key = "{credentials.api_key}"',
    )
    write_private(path, ("\n".join(lines) + "\n").encode())
