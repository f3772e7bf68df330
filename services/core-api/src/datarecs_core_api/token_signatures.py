"""Signatures of tokens of OpenID Connect (RFC 7515): four algorithms, keys of the issuer alone.

A separate module because it is all that deals with keys. A token never names its key itself: `jwk`,
`jku`, `x5u` and `x5c` in its header are ignored, and an algorithm works only with its kind of key.
"""

from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

Jwk = Mapping[str, Any]
FEWEST_RSA_BITS = 2048
_P256_BYTES = 32


def decoded(text: str) -> bytes:
    """Raises ValueError for what is not base64url without padding."""
    if not text.isascii() or any(not (one.isalnum() or one in "-_") for one in text):
        raise ValueError("not base64url")
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def is_signed(algorithm: str, key: Jwk, signature: bytes, content: bytes) -> bool:
    """Whether the key has signed the content; False for every key that does not fit."""
    verify = _VERIFY.get(algorithm)
    if verify is None or key.get("use", "sig") != "sig" or key.get("alg", algorithm) != algorithm:
        return False
    try:
        verify(key, signature, content)
    except (InvalidSignature, ValueError, KeyError, TypeError):
        return False
    return True


def _rs256(key: Jwk, signature: bytes, content: bytes) -> None:
    _rsa(key).verify(signature, content, padding.PKCS1v15(), SHA256())


def _ps256(key: Jwk, signature: bytes, content: bytes) -> None:
    salted = padding.PSS(mgf=padding.MGF1(SHA256()), salt_length=SHA256.digest_size)
    _rsa(key).verify(signature, content, salted, SHA256())


def _rsa(key: Jwk) -> rsa.RSAPublicKey:
    _require(key, kty="RSA")
    public = rsa.RSAPublicNumbers(e=_number(key["e"]), n=_number(key["n"])).public_key()
    if public.key_size < FEWEST_RSA_BITS:
        raise ValueError("the key is too short")
    return public


def _es256(key: Jwk, signature: bytes, content: bytes) -> None:
    _require(key, kty="EC", crv="P-256")
    if len(signature) != 2 * _P256_BYTES:
        raise ValueError("not a signature of this curve")
    r, s = signature[:_P256_BYTES], signature[_P256_BYTES:]
    plain = encode_dss_signature(int.from_bytes(r), int.from_bytes(s))
    point = ec.EllipticCurvePublicNumbers(
        x=_number(key["x"]), y=_number(key["y"]), curve=ec.SECP256R1()
    )
    point.public_key().verify(plain, content, ec.ECDSA(SHA256()))


def _eddsa(key: Jwk, signature: bytes, content: bytes) -> None:
    _require(key, kty="OKP", crv="Ed25519")
    ed25519.Ed25519PublicKey.from_public_bytes(decoded(key["x"])).verify(signature, content)


def _number(text: str) -> int:
    return int.from_bytes(decoded(text))


def _require(key: Jwk, **members: str) -> None:
    if any(key[name] != value for name, value in members.items()):
        raise ValueError("a key of another kind")


_VERIFY: Mapping[str, Callable[[Jwk, bytes, bytes], None]] = {
    "RS256": _rs256,
    "PS256": _ps256,
    "ES256": _es256,
    "EdDSA": _eddsa,
}
ALGORITHMS = frozenset(_VERIFY)
