"""API keys: their form, how one is created, how a presented one is compared.

A separate module because API and CLI create keys and the API checks them, all in one form: `drk_`,
12 characters of id, `_`, 43 characters of secret. The secret has full entropy, so its plain SHA-256
is what is stored; no slow hash is needed.
"""

import hashlib
import hmac
import re
from base64 import b32encode, urlsafe_b64encode
from dataclasses import dataclass, field

PREFIX = "drk_"
ID_BYTES = 8
SECRET_BYTES = 32

_KEY = re.compile(r"drk_(?P<key_id>[a-z2-7]{12})_(?P<secret>[A-Za-z0-9_-]{43})")
_NOBODYS_SHA256 = bytes(32)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A new key. `text` is shown once and stored nowhere."""

    key_id: str
    text: str = field(repr=False)
    secret_sha256: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentedKey:
    """A key from a request: well formed, not yet verified."""

    key_id: str
    secret: str = field(repr=False)


def new_key(*, id_bytes: bytes, secret_bytes: bytes) -> NewKey:
    """The key from these random bytes.

    Args:
        id_bytes: 8 random bytes; their first 60 bits become the id.
        secret_bytes: 32 random bytes.

    Raises:
        ValueError: another number of bytes.
    """
    if len(id_bytes) != ID_BYTES or len(secret_bytes) != SECRET_BYTES:
        raise ValueError(f"a key is made of {ID_BYTES} and {SECRET_BYTES} random bytes")
    key_id = b32encode(id_bytes).decode().lower()[:12]
    secret = urlsafe_b64encode(secret_bytes).decode().rstrip("=")
    return NewKey(
        key_id=key_id, text=f"{PREFIX}{key_id}_{secret}", secret_sha256=secret_sha256(secret)
    )


def parse_key(text: str) -> PresentedKey | None:
    """The two parts of a key; None for any other form."""
    match = _KEY.fullmatch(text)
    return match and PresentedKey(key_id=match["key_id"], secret=match["secret"])


def secret_sha256(secret: str) -> bytes:
    """What is stored of the 43 characters."""
    return hashlib.sha256(secret.encode()).digest()


def is_genuine(presented: PresentedKey, stored_sha256: bytes | None) -> bool:
    """Whether the secret is the stored one, in constant time.

    An unknown id, passed as None, costs the same hash and comparison and is never genuine.
    """
    expected = _NOBODYS_SHA256 if stored_sha256 is None else stored_sha256
    same = hmac.compare_digest(secret_sha256(presented.secret), expected)
    return same and stored_sha256 is not None
