"""Where everything of one local platform lies, and with which modes.

`up` may run as root, and then the database account has to pass through the root folder: it is
0711 in that case, 0700 otherwise. Secrets are never passable.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Layout:
    """The data directory; every path below it is derived."""

    root: Path
    """Absolute."""

    @property
    def state_file(self) -> Path:
        return self.root / "state.json"

    @property
    def lock_file(self) -> Path:
        return self.root / "lock"

    @property
    def credentials_file(self) -> Path:
        return self.root / "credentials.toml"

    @property
    def secrets(self) -> Path:
        return self.root / "secrets"

    @property
    def tenant_secrets(self) -> Path:
        """Below it, by tenant id, what `file:` references may name."""
        return self.root / "tenant-secrets"

    @property
    def postgres(self) -> Path:
        return self.root / "pg"

    @property
    def kafka(self) -> Path:
        return self.root / "kafka"

    @property
    def blobs(self) -> Path:
        return self.root / "blobs"

    @property
    def mail(self) -> Path:
        return self.root / "mail"

    @property
    def scratch(self) -> Path:
        return self.root / "scratch"

    @property
    def java(self) -> Path:
        return self.root / "java"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    def log(self, part: str) -> Path:
        return self.logs / f"{part}.log"

    def create(self, *, as_root: bool) -> None:
        """Make the folders and set their modes; safe to repeat."""
        self.root.mkdir(parents=True, exist_ok=True)
        self.root.chmod(0o711 if as_root else 0o700)
        self.postgres.mkdir(exist_ok=True)
        self.postgres.chmod(0o711 if as_root else 0o700)
        for folder in (
            self.secrets,
            self.tenant_secrets,
            self.kafka,
            self.blobs,
            self.mail,
            self.scratch,
            self.logs,
        ):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o700)


def layout_of(data_dir: Path) -> Layout:
    return Layout(data_dir.expanduser().absolute())
