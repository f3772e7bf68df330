"""Secret references: which a tenant may use at all, by their text alone.

Its own module because a reference is refused when it is written and again when it is used, by the
same rule; only `datarecs_runtime.secrets` looks behind it.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath

from datarecs_core.errors.security import SecretRefusedError

MAX_REFERENCE_CHARACTERS = 1024
_ENV_NAME = re.compile(r"[A-Z][A-Z0-9_]*")


class ReferenceKind(StrEnum):
    ENV = "env"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceRules:
    """What one tenant may refer to."""

    env_prefix: str
    """Such as `DATARECS_CONN_DEFAULT_`; at least one more character must follow."""
    file_root: str | None
    """The tenant's own folder; None when the operator set no secret root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretReference:
    kind: ReferenceKind
    place: str
    """Name of a variable, or an absolute path without `.` and `..`."""


def check_reference(text: str, rules: ReferenceRules) -> SecretReference:
    """The reference, when its tenant may use it.

    Raises:
        SecretRefusedError: an unknown kind, or a place outside the tenant's own.
    """
    kind_text, separator, place = text.partition(":")
    if not separator or kind_text not in set(ReferenceKind):
        raise SecretRefusedError(kind=_shown(kind_text, separator), rule="use `env:` or `file:`")
    kind = ReferenceKind(kind_text)
    if len(text) > MAX_REFERENCE_CHARACTERS or not place.isprintable():
        raise SecretRefusedError(kind=kind, rule="it is too long or holds control characters")
    if kind is ReferenceKind.ENV:
        _check_name(place, rules)
    else:
        _check_path(place, rules)
    return SecretReference(kind=kind, place=place)


def _check_name(name: str, rules: ReferenceRules) -> None:
    if not _ENV_NAME.fullmatch(name):
        raise SecretRefusedError(kind="env", rule="a name is A-Z, 0-9 and _")
    if not name.startswith(rules.env_prefix) or name == rules.env_prefix:
        raise SecretRefusedError(kind="env", rule=f"the name must start with {rules.env_prefix}")


def _check_path(text: str, rules: ReferenceRules) -> None:
    if rules.file_root is None:
        raise SecretRefusedError(kind="file", rule="the operator has set no secret folder")
    path = PurePosixPath(text)
    if not path.is_absolute() or ".." in path.parts or str(path) != text:
        raise SecretRefusedError(kind="file", rule="the path must be absolute and plain")
    root = PurePosixPath(rules.file_root)
    if path == root or not path.is_relative_to(root):
        raise SecretRefusedError(kind="file", rule="the path must lie in the tenant's own folder")


def _shown(kind: str, separator: str) -> str:
    """The kind for the message; a text without a colon may be the secret itself."""
    return kind[:32] if separator and kind.isidentifier() else "unknown"
