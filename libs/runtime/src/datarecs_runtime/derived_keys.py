"""Keys derived from the id key, else the key-encryption key: one per tenant and purpose.

A derived key is stored nowhere and never encrypts secrets: it makes ids and hashes that another
tenant cannot compute, and it is the same in every process with the same settings.
"""

from uuid import UUID

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from datarecs_core.errors.process import SettingsError
from datarecs_runtime.secrets import key_bytes, key_encryption_key
from datarecs_runtime.sections import Secrets

LENGTH = 32


def derived_key(settings: Secrets, *, tenant: UUID | None, purpose: str) -> bytes:
    """Derive a key of 32 bytes; `tenant` None for a key of the whole deployment.

    Raises:
        SettingsError: no key is set, or it is malformed.
    """
    if settings.id_key is not None:
        key: bytes | None = key_bytes(settings.id_key, "ID_KEY")
    else:
        key = key_encryption_key(settings)
    if key is None:
        raise SettingsError(("DATARECS_SECRETS__KEK_FILE is missing; ids are keyed by it",))
    info = f"datarecs/{purpose}/{tenant or 'deployment'}".encode()
    hkdf = HKDF(algorithm=SHA256(), length=LENGTH, salt=None, info=info)
    return hkdf.derive(key)
