"""The folders and files of one local platform, with their modes.

`up` may run as root; then the database account must pass the data directory, so its mode is 0711,
otherwise 0700. The folder of secrets is always closed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DATA_FOLDER = ".datarecs"
"""Default name of a data directory; no other program uses a folder of this name."""
DRAFTS = (".state.json.*", ".credentials.toml.*")
"""Files that replace another one; an interrupted write leaves them."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The data directory and its derived paths."""

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
        """Parent of the folders by tenant id with the files for `file:` references."""
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

    @property
    def is_used(self) -> bool:
        """Whether a platform has used this folder; only then can data in it be deleted.

        The name of a link says nothing about the folder that it leads to.
        """
        is_ours = self.root.name == DATA_FOLDER and not self.root.is_symlink()
        return is_ours or all(one.is_dir() for one in self._marks)

    def others(self) -> list[str]:
        """Names of files and folders that are not of the platform, sorted."""
        made = set(self.made())
        return sorted(one.name for one in self.root.iterdir() if one not in made)

    def made(self) -> Iterator[Path]:
        """Paths that a platform creates in the root, existing or not; its marks are the last."""
        for pattern in DRAFTS:
            yield from self.root.glob(pattern)
        yield from (self.state_file, self.credentials_file, self.lock_file)
        yield from (self.root / name for name in ("captures", "demo", "sinks"))
        yield from (self.kafka, self.blobs, self.mail, self.scratch, self.java, self.logs)
        yield from self._marks

    @property
    def _marks(self) -> tuple[Path, ...]:
        return self.postgres, self.secrets, self.tenant_secrets

    def log(self, part: str) -> Path:
        return self.logs / f"{part}.log"

    def create(self, *, as_root: bool) -> None:
        """Create the folders and set their modes; safe to repeat."""
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
