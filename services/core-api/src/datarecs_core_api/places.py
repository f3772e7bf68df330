"""Places in a tenant's feed for clients: the number, encrypted with a key of the tenant.

Feed numbers count the writes of all tenants, so the plain number reveals the activity of the
others. A block cipher makes each number one text of a fixed length, which reveals neither the
number nor the order, and which no other tenant can use (ADR 0087).
"""

import base64
import binascii
import hashlib
import hmac
from datetime import UTC, datetime
from functools import lru_cache

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from datarecs_core.values import TenantId

BEGINNING = "0"
"""The place before the first event, in every tenant."""
TEXT_LENGTH = 22
_NUMBER_BYTES, _SECONDS_BYTES = 8, 4
_MARK = bytes(8)
"""What fills the block: a text of another key decrypts to other bytes."""
_SHORT_MARK = _MARK[:-_SECONDS_BYTES]


class Places:
    """Makes and reads places under one key of the deployment. Safe from several threads."""

    def __init__(self, key: bytes) -> None:
        self._blocks = _Blocks(key)

    def write(self, tenant: TenantId, number: int) -> str:
        return self._blocks.seal(tenant, _MARK + number.to_bytes(_NUMBER_BYTES))

    def read(self, tenant: TenantId, text: str) -> int | None:
        """The number; None for a text that is no place of this tenant."""
        if text == BEGINNING:
            return 0
        plain = self._blocks.open(tenant, text, mark=_MARK)
        return None if plain is None else int.from_bytes(plain)


class DatedPlaces:
    """The same with a time, so that an old place is known by itself. Safe from several threads."""

    def __init__(self, key: bytes) -> None:
        self._blocks = _Blocks(key)

    def write(self, tenant: TenantId, number: int, *, at: datetime) -> str:
        """`at`: everything after this number was committed after this time, to a few seconds."""
        seconds = int(at.timestamp()).to_bytes(_SECONDS_BYTES)
        return self._blocks.seal(tenant, _SHORT_MARK + seconds + number.to_bytes(_NUMBER_BYTES))

    def read(self, tenant: TenantId, text: str) -> tuple[int, datetime] | None:
        """Number and time; None for a text that is no place of this tenant."""
        plain = self._blocks.open(tenant, text, mark=_SHORT_MARK)
        if plain is None:
            return None
        seconds = int.from_bytes(plain[:_SECONDS_BYTES])
        number = int.from_bytes(plain[_SECONDS_BYTES:])
        return number, datetime.fromtimestamp(seconds, tz=UTC)


class _Blocks:
    """One block of 16 bytes as a text of 22 characters, under a key of the tenant."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._cipher = lru_cache(maxsize=1024)(self._cipher_of)

    def seal(self, tenant: TenantId, plain: bytes) -> str:
        encryptor = self._cipher(tenant).encryptor()
        block = encryptor.update(plain) + encryptor.finalize()
        return base64.urlsafe_b64encode(block).decode().rstrip("=")

    def open(self, tenant: TenantId, text: str, *, mark: bytes) -> bytes | None:
        """What follows the mark; None for a text that was not sealed with this mark and key."""
        if len(text) != TEXT_LENGTH or not text.isascii():
            return None
        try:
            block = base64.b64decode(f"{text}==", altchars=b"-_", validate=True)
        except binascii.Error:
            return None
        decryptor = self._cipher(tenant).decryptor()
        plain = decryptor.update(block) + decryptor.finalize()
        return plain[len(mark) :] if plain.startswith(mark) else None

    def _cipher_of(self, tenant: TenantId) -> Cipher[ECB]:
        """One block alone is encrypted, so that ECB is the bare permutation."""
        key = hmac.new(self._key, tenant.bytes, hashlib.sha256).digest()
        return Cipher(AES(key), ECB())  # noqa: S305  one block
