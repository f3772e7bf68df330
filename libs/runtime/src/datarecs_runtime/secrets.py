"""Secrets of tenants: resolves references, seals and opens stored secrets.

Only this module has a secret in plain text, for a moment. `datarecs_core.access.references` decides
which references a tenant may use.

An envelope is: version (1 byte), length and text of the key-encryption key's id, nonce and wrapped
data key (12 + 48 bytes), nonce and ciphertext. Each record has a separate data key. Its context
(tenant, resource, field, version) is authenticated in both steps, so an envelope opens only with
the same context.
"""

import base64
import binascii
import io
import os
import stat
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import structlog
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import SecretStr

from datarecs_core.access.references import (
    LOCALLY_FREE,
    ReferenceKind,
    ReferenceRules,
    SecretPurpose,
    SecretReference,
    SecretUse,
    check_reference,
    check_use,
    parse_use,
)
from datarecs_core.egress.addresses import Profile
from datarecs_core.errors.process import SettingsError
from datarecs_core.errors.security import (
    SecretRefusedError,
    SecretTamperedError,
    SecretUnavailableError,
)
from datarecs_core.hashing import canonical_json
from datarecs_runtime.clock import random_bytes
from datarecs_runtime.sections import SecretReferences, Secrets

log: structlog.typing.FilteringBoundLogger = structlog.get_logger()
ENV_PREFIX = "DATARECS_CONN_"
MAX_SECRET_BYTES = 64 * 1024
_VERSION = 1
_KEY_BYTES, _NONCE_BYTES, _TAG_BYTES = 32, 12, 16
_WRAPPED_BYTES = _KEY_BYTES + _TAG_BYTES


def key_encryption_key(settings: Secrets) -> bytes | None:
    """The 32 bytes of the key; None if no key is set.

    Raises:
        SettingsError: the key is not base64 of 32 bytes.
    """
    return None if settings.kek is None else key_bytes(settings.kek, "KEK")


def key_bytes(secret: SecretStr, name: str) -> bytes:
    """The 32 bytes of setting DATARECS_SECRETS__<name>.

    Raises:
        SettingsError: it is not base64 of 32 bytes.
    """
    try:
        key = base64.b64decode(secret.get_secret_value(), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != _KEY_BYTES:
        raise SettingsError((f"DATARECS_SECRETS__{name}: must be base64 of 32 random bytes",))
    return key


class Keyring:
    """Key-encryption keys by id: one seals, all open."""

    def __init__(self, keys: Mapping[str, bytes], *, current: str) -> None:
        self._keys, self.current = dict(keys), current

    @classmethod
    def of(cls, settings: Secrets) -> "Keyring":
        """The keyring of the settings: the key, and the previous one during a rotation.

        Raises:
            SettingsError: a key is not base64 of 32 bytes.
        """
        key = key_encryption_key(settings)
        keys = {} if key is None else {settings.kek_id: key}
        if settings.previous_kek is not None and settings.previous_kek_id is not None:
            keys[settings.previous_kek_id] = key_bytes(settings.previous_kek, "PREVIOUS_KEK")
        return cls(keys, current=settings.kek_id)

    def key(self, key_id: str) -> AESGCM | None:
        key = self._keys.get(key_id)
        return AESGCM(key) if key else None


class TenantSecrets:
    """The SecretStore port in production."""

    def __init__(
        self,
        settings: SecretReferences,
        *,
        keyring: Keyring,
        environment: Mapping[str, str],
        profile: Profile = Profile.SERVER,
    ) -> None:
        self._settings, self._keyring, self._environment = settings, keyring, environment
        self._uses = {
            reference: frozenset(map(parse_use, texts))
            for reference, texts in settings.uses.items()
        }
        self._free = LOCALLY_FREE if profile is Profile.LOCAL else frozenset[SecretPurpose]()
        self._warned: set[tuple[str, SecretUse]] = set()

    @classmethod
    def of(cls, settings: SecretReferences, profile: Profile) -> "TenantSecrets":
        """Create it with this process's environment and the keys of the settings, if they have any.

        Without keys it resolves references alone.
        """
        keyring = Keyring({}, current="")
        if isinstance(settings, Secrets):
            keyring = Keyring.of(settings)
        return cls(settings, keyring=keyring, environment=os.environ, profile=profile)

    def rules(self, tenant: UUID) -> ReferenceRules:
        """The references that the tenant may use; the API checks with it when one is written."""
        label = self._settings.tenant_names.get(tenant, tenant.hex.upper())
        root = self._settings.file_root
        return ReferenceRules(
            env_prefix=f"{ENV_PREFIX}{label}_",
            file_root=None if root is None else str(root / str(tenant)),
            uses=self._uses,
            free=self._free,
        )

    def resolve(self, reference: str, *, tenant: UUID, uses: Collection[SecretUse]) -> str:
        rules = self.rules(tenant)
        checked = check_reference(reference, rules)
        for use in uses:
            if not check_use(reference, use, rules):
                self._warn_once(reference, use)
        if checked.kind is ReferenceKind.ENV:
            value = self._environment.get(checked.place)
        else:
            value = _first_line(checked, Path(str(rules.file_root)))
        if not value:
            raise SecretUnavailableError(
                reference=reference, cause="the variable is not set or empty"
            )
        return value

    def _warn_once(self, reference: str, use: SecretUse) -> None:
        if (reference, use) not in self._warned:
            self._warned.add((reference, use))
            log.warning("secret_not_bound", reference=reference, use=str(use))

    def seal(self, plain: bytes, *, context: Mapping[str, str]) -> bytes:
        key_id = self._keyring.current
        wrapping = self._keyring.key(key_id)
        if wrapping is None:
            raise SecretUnavailableError(
                reference="DATARECS_SECRETS__KEK", cause="no key-encryption key is configured"
            )
        head = _head(key_id)
        bound = head + canonical_json(dict(context))
        data_key = random_bytes(_KEY_BYTES)
        wrap_nonce, nonce = random_bytes(_NONCE_BYTES), random_bytes(_NONCE_BYTES)
        wrapped = wrapping.encrypt(wrap_nonce, data_key, bound)
        return head + wrap_nonce + wrapped + nonce + AESGCM(data_key).encrypt(nonce, plain, bound)

    def open(self, sealed: bytes, *, context: Mapping[str, str]) -> bytes:
        envelope = _taken_apart(sealed)
        wrapping = self._keyring.key(envelope.key_id)
        if wrapping is None:
            raise SecretTamperedError(key_id=envelope.key_id, cause="this key is not configured")
        bound = _head(envelope.key_id) + canonical_json(dict(context))
        try:
            data_key = wrapping.decrypt(envelope.wrap_nonce, envelope.wrapped, bound)
            return AESGCM(data_key).decrypt(envelope.nonce, envelope.ciphertext, bound)
        except InvalidTag as cause:
            raise SecretTamperedError(
                key_id=envelope.key_id, cause="the bytes or the context differ from the sealed ones"
            ) from cause

    def reseal(self, sealed: bytes, *, context: Mapping[str, str]) -> bytes | None:
        """The secret, sealed under the current key; None if it is already.

        Raises:
            SecretTamperedError: no configured key opens it.
        """
        if _taken_apart(sealed).key_id == self._keyring.current:
            return None
        return self.seal(self.open(sealed, context=context), context=context)


class _Envelope(NamedTuple):
    key_id: str
    wrap_nonce: bytes
    wrapped: bytes
    nonce: bytes
    ciphertext: bytes


def _head(key_id: str) -> bytes:
    name = key_id.encode()
    return bytes((_VERSION, len(name))) + name


def _taken_apart(sealed: bytes) -> _Envelope:
    rest = io.BytesIO(sealed)
    version, length = rest.read(1), rest.read(1)
    if version != bytes((_VERSION,)):
        raise SecretTamperedError(key_id=None, cause="unknown format")
    envelope = _Envelope(
        key_id=rest.read(int.from_bytes(length)).decode(errors="replace"),
        wrap_nonce=rest.read(_NONCE_BYTES),
        wrapped=rest.read(_WRAPPED_BYTES),
        nonce=rest.read(_NONCE_BYTES),
        ciphertext=rest.read(),
    )
    if len(envelope.ciphertext) < _TAG_BYTES:
        raise SecretTamperedError(key_id=None, cause="the envelope is cut off")
    return envelope


def _first_line(reference: SecretReference, root: Path) -> str | None:
    """The first line of a regular file that is below the tenant's root, also after links."""
    path = Path(reference.place)
    try:
        real = path.resolve(strict=True)
        inside = real.is_relative_to(root.resolve(strict=True))
        if not inside:
            raise SecretRefusedError(kind="file", rule="the file is outside the tenant's folder")
        descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise SecretRefusedError(kind="file", rule="the path is not a regular file")
            line = file.readline(MAX_SECRET_BYTES).rstrip(b"\r\n")
        return line.decode()
    except (OSError, UnicodeDecodeError) as cause:
        raise SecretUnavailableError(
            reference=f"file:{reference.place}", cause=type(cause).__name__
        ) from cause
