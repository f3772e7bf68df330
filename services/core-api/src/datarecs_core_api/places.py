"""Places in a tenant's feed for clients: the number, encrypted with a key of the tenant.

Feed numbers count the writes of all tenants, so the plain number reveals the activity of the
others. A block cipher makes each number one text of a fixed length, which reveals neither the
number nor the order, and which no other tenant can use (ADR 0087).
"""

import base64
import binascii
import hashlib
import hmac
from functools import lru_cache

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from datarecs_core.values import TenantId

BEGINNING = "0"
"""The place before the first event, in every tenant."""
TEXT_LENGTH = 22
_NUMBER_BYTES = 8
_MARK = bytes(8)
"""What fills the block: a text of another key decrypts to other bytes."""


class Places:
    """Makes and reads places under one key of the deployment. Safe from several threads."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._cipher = lru_cache(maxsize=1024)(self._cipher_of)

    def write(self, tenant: TenantId, number: int) -> str:
        encryptor = self._cipher(tenant).encryptor()
        block = encryptor.update(_MARK + number.to_bytes(_NUMBER_BYTES)) + encryptor.finalize()
        return base64.urlsafe_b64encode(block).decode().rstrip("=")

    def read(self, tenant: TenantId, text: str) -> int | None:
        """The number; None for a text that is no place of this tenant."""
        if text == BEGINNING:
            return 0
        if len(text) != TEXT_LENGTH or not text.isascii():
            return None
        try:
            block = base64.b64decode(f"{text}==", altchars=b"-_", validate=True)
        except binascii.Error:
            return None
        decryptor = self._cipher(tenant).decryptor()
        plain = decryptor.update(block) + decryptor.finalize()
        return int.from_bytes(plain[-_NUMBER_BYTES:]) if plain.startswith(_MARK) else None

    def _cipher_of(self, tenant: TenantId) -> Cipher[ECB]:
        """One block alone is encrypted, so that ECB is the bare permutation."""
        key = hmac.new(self._key, tenant.bytes, hashlib.sha256).digest()
        return Cipher(AES(key), ECB())  # noqa: S305  one block
