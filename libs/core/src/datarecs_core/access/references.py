"""Secret references: which a tenant may use, and where each may be sent.

A separate module because a reference is refused when it is written and again when it is used, by
the same rules; only `datarecs_runtime.secrets` reads the secret.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_address
from pathlib import PurePosixPath

from datarecs_core.errors.security import SecretRefusedError

MAX_REFERENCE_CHARACTERS = 1024
_ENV_NAME = re.compile(r"[A-Z][A-Z0-9_]*")


class ReferenceKind(StrEnum):
    ENV = "env"
    FILE = "file"


class SecretPurpose(StrEnum):
    """What a secret is sent as."""

    POSTGRES = "postgres"
    """Password of a PostgreSQL login, also of an Iceberg catalog in PostgreSQL."""
    ICEBERG = "iceberg"
    """Token or credential of an Iceberg REST catalog."""
    OBJECT_STORE = "object-store"
    """Key of a store of objects such as S3."""
    KAFKA = "kafka"
    """Password of a login at a Kafka broker or its schema registry."""
    WEBHOOK = "webhook"
    """Bearer or header of a webhook request."""
    SIGNING = "signing"
    """Key that signs webhook requests."""
    URL = "url"
    """A webhook's whole URL; it names its host itself."""


LOCALLY_FREE = frozenset(
    {
        SecretPurpose.POSTGRES,
        SecretPurpose.ICEBERG,
        SecretPurpose.OBJECT_STORE,
        SecretPurpose.KAFKA,
    }
)
"""Purposes that need no binding in profile `local`, where one person runs and declares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretUse:
    """One purpose at one host, as the operator writes it: `postgres:ledger.example.com`."""

    purpose: SecretPurpose
    host: str = ""
    """In the form of `normal_host`; empty for `url` alone."""

    def __str__(self) -> str:
        return f"{self.purpose}:{self.host}" if self.host else str(self.purpose)


def parse_use(text: str) -> SecretUse:
    """The use that an operator wrote.

    Raises:
        ValueError: an unknown purpose, or a host that is missing or not allowed.
    """
    purpose_text, _, host = text.partition(":")
    try:
        purpose = SecretPurpose(purpose_text)
    except ValueError:
        known = ", ".join(SecretPurpose)
        raise ValueError(f"a use starts with one of {known}") from None
    if (purpose is SecretPurpose.URL) == bool(host):
        raise ValueError("write purpose:host, and `url` without a host")
    return SecretUse(purpose=purpose, host=normal_host(host))


def normal_host(host: str) -> str:
    """The one spelling under which hosts of bindings and of declarations are compared."""
    plain = host.strip("[]").removesuffix(".").lower()
    if not plain.isascii():
        plain = plain.encode("idna").decode()
    try:
        return str(ip_address(plain))
    except ValueError:
        return plain


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceRules:
    """What one tenant may refer to, and for which uses."""

    env_prefix: str
    """Such as `DATARECS_CONN_DEFAULT_`; at least one more character must follow."""
    file_root: str | None
    """The tenant's folder; None when the operator set no secret root."""
    uses: Mapping[str, frozenset[SecretUse]] = field(default_factory=dict)
    """By reference, of all tenants: what the operator bound it to."""
    free: frozenset[SecretPurpose] = frozenset()
    """Purposes for which a reference without any binding is accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretReference:
    kind: ReferenceKind
    place: str
    """Name of a variable, or an absolute path without `.` and `..`."""


def check_reference(text: str, rules: ReferenceRules) -> SecretReference:
    """The reference, when its tenant may use it.

    Raises:
        SecretRefusedError: an unknown kind, or a place outside the tenant's.
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


def check_use(text: str, use: SecretUse, rules: ReferenceRules) -> bool:
    """Whether the operator bound the reference to this use; False: unbound, and accepted so.

    Raises:
        SecretRefusedError: it is bound to other uses, or to none where a binding is needed.
    """
    bound = rules.uses.get(text)
    if bound is None and use.purpose in rules.free:
        return False
    if bound is None or use not in bound:
        raise SecretRefusedError(
            kind=text.partition(":")[0],
            rule=f"it may not be used for {use}; the operator allows that in "
            "DATARECS_SECRETS__USES",
        )
    return True


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
        raise SecretRefusedError(kind="file", rule="the path must be in the tenant's folder")


def _shown(kind: str, separator: str) -> str:
    """The kind for the message; a text without a colon may be the secret itself."""
    return kind[:32] if separator and kind.isidentifier() else "unknown"
