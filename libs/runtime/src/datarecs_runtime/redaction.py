"""Masks secrets in log lines, error texts and attempt logs: by known keys and known forms.

All code that stores or shows a foreign text calls `redact`. It is the last defence; code must not
write secrets into texts at all.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

MASK = "***"

_KEYS = (
    "authorization",
    "cookie",
    "set_cookie",
    "password",
    "secret",
    "token",
    "api_key",
    "private_key",
    "dsn",
    "signature",
)
_SHAPES = (
    re.compile(r"drk_[A-Za-z0-9_-]{8,}"),
    re.compile(r"whsec_[A-Za-z0-9+/=_-]+"),
    re.compile(r"eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"),
    re.compile(r"-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|\Z)", re.DOTALL),
)
_USERINFO = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]*://)[^\s/@]*@", re.IGNORECASE)
_ASSIGNED = re.compile(
    r"(?P<key>\b(?:password|passwd|pwd|secret|token|api[_-]?key|authorization)\b[\"']?\s*[=:]\s*)"
    r"(?P<value>\"[^\"]*\"|'[^']*'|(?:(?:bearer|basic)\s+)?[^\s,;&]+)",
    re.IGNORECASE,
)
_DEEPEST = 8


def redact(text: str) -> str:
    """The text with keys, tokens, signing secrets, JWTs, PEM blocks and URL user info masked."""
    for shape in _SHAPES:
        text = shape.sub(MASK, text)
    text = _USERINFO.sub(rf"\g<scheme>{MASK}@", text)
    return _ASSIGNED.sub(rf"\g<key>{MASK}", text)


@lru_cache(maxsize=1024)
def is_secret_key(key: str) -> bool:
    """Whether a value under this name is masked completely, for any spelling of the name."""
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).lower().replace("-", "_").replace(".", "_")
    return any(plain == name or plain.endswith(f"_{name}") for name in _KEYS)


def redacted(value: object, *, depth: int = 0) -> object:
    """A copy to show: mappings masked by key, texts by form; levels below 8 are left out."""
    if depth > _DEEPEST:
        return MASK
    match value:
        case Mapping():
            return {
                str(key): MASK if is_secret_key(str(key)) else redacted(item, depth=depth + 1)
                for key, item in value.items()
            }
        case list() | tuple() | set() | frozenset():
            return [redacted(item, depth=depth + 1) for item in value]
        case _:
            return _redacted_leaf(value)


def _redacted_leaf(value: object) -> object:
    match value:
        case None | bool() | int() | float():
            return value
        case bytes():
            return f"<{len(value)} bytes>"
        case _:
            return redact(str(value))
