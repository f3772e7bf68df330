"""Writes the user's credentials file: one table per context, readable only by the user.

`config`, which every command uses, only reads.
"""

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

from datarecs_cli.config import USER_CREDENTIALS, Access, CredentialsUnreadableError

_ONLY_OWNER = 0o600


def store_context(home: Path, name: str, access: Access) -> Path:
    """Add the context, or replace the one of this name; returns the file.

    Raises:
        CredentialsUnreadableError: the file is not TOML, or cannot be written.
    """
    path = home / USER_CREDENTIALS.relative_to("~")
    contexts = {**_contexts(path), name: {"server": access.server, "api_key": access.api_key}}
    _write(path, contexts)
    return path


def remove_context(home: Path, name: str) -> Path | None:
    """Remove the context and return the file; None if it has no context of this name."""
    path = home / USER_CREDENTIALS.relative_to("~")
    contexts = dict(_contexts(path))
    if contexts.pop(name, None) is None:
        return None
    _write(path, contexts)
    return path


def _contexts(path: Path) -> Mapping[str, Mapping[str, object]]:
    if not path.exists():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as cause:
        reason = getattr(cause, "strerror", None) or "it is not TOML"
        raise CredentialsUnreadableError(path=path, reason=reason) from cause


def _write(path: Path, contexts: Mapping[str, Mapping[str, object]]) -> None:
    """Write TOML, with strings as in JSON, to a new file first, so a full disk loses no key."""
    parts = []
    for name, table in contexts.items():
        lines = [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in table.items()]
        parts.append("\n".join([f"[{json.dumps(name)}]", *lines, ""]))
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial.unlink(missing_ok=True)
        target = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _ONLY_OWNER)
        with os.fdopen(target, "w", encoding="utf-8") as file:
            file.write("\n".join(parts))
        partial.replace(path)
    except OSError as cause:
        reason = cause.strerror or type(cause).__name__
        raise CredentialsUnreadableError(path=path, reason=reason) from cause
