"""The stored state of a platform and its lock: state.json in the data directory, and the lock.

The state file is replaced atomically, so a reader never sees half of it. The lock is a lock of the
kernel: it ends with its process, even if the file changes.
"""

import errno
import fcntl
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from datarecs_cli.stack.failures import LockUnavailableError, StateUnreadableError
from datarecs_cli.stack.process import Identity


class Phase(StrEnum):
    STARTING = "STARTING"
    READY = "READY"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The content of state.json; missing values have defaults, so old files stay readable."""

    release: str = ""
    phase: Phase = Phase.STOPPED
    supervisor: Identity | None = None
    ports: Mapping[str, int] = field(default_factory=dict)
    """Ports by name; they stay stored when the platform stops, for its next start."""
    expected: tuple[str, ...] = ()
    """Names of the parts that should run, in the order of their start."""
    parts: Mapping[str, Identity] = field(default_factory=dict)
    """Running parts by name, in the order in which they were started."""
    restarts: Mapping[str, str] = field(default_factory=dict)
    """For each part that ended since `up`: its last end, and the number of the restart."""
    cluster_id: str | None = None
    java: Mapping[str, str] = field(default_factory=dict)
    postgres: Mapping[str, str] = field(default_factory=dict)
    """`version`, `directory`, `binaries`, `account`."""


def load(path: Path) -> State:
    """The state; an empty one if there is no file yet.

    Raises:
        StateUnreadableError: the file is damaged or cannot be read.
    """
    try:
        return _state(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return State()
    except (AttributeError, OSError, TypeError, ValueError) as failure:
        raise StateUnreadableError(path=path, reason=str(failure)) from failure


def _state(written: dict[str, Any]) -> State:
    supervisor = written.get("supervisor")
    return State(
        release=written.get("release", ""),
        phase=Phase(written.get("phase", Phase.STOPPED)),
        supervisor=Identity(**supervisor) if supervisor else None,
        ports=dict(written.get("ports", {})),
        expected=tuple(written.get("expected", ())),
        parts={name: Identity(**one) for name, one in written.get("parts", {}).items()},
        restarts=dict(written.get("restarts", {})),
        cluster_id=written.get("cluster_id"),
        java=dict(written.get("java", {})),
        postgres=dict(written.get("postgres", {})),
    )


def save(path: Path, state: State) -> None:
    """Replace the file atomically; it has no secrets."""
    written = {
        "release": state.release,
        "phase": state.phase,
        "supervisor": state.supervisor and _written(state.supervisor),
        "ports": dict(state.ports),
        "expected": list(state.expected),
        "parts": {name: _written(identity) for name, identity in state.parts.items()},
        "restarts": dict(state.restarts),
        "cluster_id": state.cluster_id,
        "java": dict(state.java),
        "postgres": dict(state.postgres),
    }
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, prefix=f".{path.name}.", delete=False, encoding="utf-8"
    ) as target:
        json.dump(written, target, indent=2)
    Path(target.name).replace(path)


def _written(identity: Identity) -> dict[str, int | str]:
    return {"pid": identity.pid, "started": identity.started}


class DirectoryLock:
    """A lock for one platform per data directory, until `release` or the end of the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    @property
    def is_held(self) -> bool:
        """Whether this object has the lock."""
        return self._descriptor is not None

    def take(self, flock: Callable[[int, int], None] = fcntl.flock) -> bool:
        """Take the lock; False if another process has it.

        Raises:
            LockUnavailableError: the file system has no locks, or the file cannot be opened.
        """
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as failure:
            raise self._unavailable(failure) from failure
        try:
            flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as failure:
            os.close(descriptor)
            if failure.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return False
            raise self._unavailable(failure) from failure
        self._descriptor = descriptor
        return True

    def _unavailable(self, failure: OSError) -> LockUnavailableError:
        return LockUnavailableError(path=self._path, reason=failure.strerror or str(failure))

    def release(self) -> None:
        """Safe to repeat."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def is_locked(path: Path) -> bool:
    """Whether a supervisor has the lock; raises what `take` raises."""
    if not path.exists():
        return False
    lock = DirectoryLock(path)
    is_free = lock.take()
    lock.release()
    return not is_free
