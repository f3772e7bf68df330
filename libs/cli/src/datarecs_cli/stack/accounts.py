"""The account that runs the database, and whether it can reach its files.

Postgres refuses root. Started as root, the stack uses an existing account (slim images have no
`useradd`). Before the start it checks that the account can pass every folder on the path to the
data and the programs: it cannot pass a home with mode 0700.
"""

import pwd
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PREFERRED = ("postgres", "datarecs", "nobody")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    name: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """The first component of a path that the account cannot pass."""

    path: Path
    mode: int
    """Permission bits, as `ls` shows them."""

    def __str__(self) -> str:
        return f"{self.path} has mode {self.mode:04o}"


def _by_name(name: str) -> Account | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return Account(name=name, uid=entry.pw_uid, gid=entry.pw_gid)


def server_account(
    *,
    effective_uid: int,
    before: str | None = None,
    find: Callable[[str], Account | None] = _by_name,
) -> Account | None:
    """The account of the database: None is the current one; for root the first of `PREFERRED`.

    `before` is the account of an earlier start, which owns the data and has priority.

    Raises:
        LookupError: started as root, and none of the three accounts exists.
    """
    if effective_uid != 0:
        return None
    for name in (before, *PREFERRED) if before else PREFERRED:
        account = find(name)
        if account is not None and account.uid != 0:
            return account
    raise LookupError(f"none of the accounts {', '.join(PREFERRED)} exists")


def obstacle(account: Account | None, path: Path) -> Obstacle | None:
    """The component of a path that the account cannot pass; None if it can pass all existing ones.

    Components that do not exist yet are created later with modes that let the account pass. Only
    permission bits count: the account is started without supplementary groups.
    """
    if account is None:
        return None
    absolute = path.absolute()
    for component in (*reversed(absolute.parents), absolute):
        try:
            status = component.stat()
        except FileNotFoundError:
            return None
        mode = stat.S_IMODE(status.st_mode)
        if not _may_search(account, mode=mode, owner=status.st_uid, group=status.st_gid):
            return Obstacle(path=component, mode=mode)
    return None


def _may_search(account: Account, *, mode: int, owner: int, group: int) -> bool:
    if owner == account.uid:
        return bool(mode & stat.S_IXUSR)
    if group == account.gid:
        return bool(mode & stat.S_IXGRP)
    return bool(mode & stat.S_IXOTH)
