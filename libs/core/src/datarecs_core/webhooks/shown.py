"""What of a delivery may be shown: URL, headers and errors without their secrets.

One place for tenant-visible logs and events, so that no caller decides for itself what is secret.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from urllib.parse import SplitResult, urlsplit

MASK = "***"

_ALWAYS_MASKED = frozenset({"authorization", "webhook-signature", "set-cookie", "cookie"})
_SECRET_NAME = re.compile(r"auth|token|secret|signature|cookie|key", re.IGNORECASE)
_QUERY_VALUE = re.compile(r"=[^&]*")


def shown_url(url: str, *, secret: bool) -> str:
    """The URL with query values masked; scheme, host and port alone where it is a secret."""
    parts = urlsplit(url)
    if secret:
        return _origin(parts)
    query = f"?{_QUERY_VALUE.sub('=' + MASK, parts.query)}" if parts.query else ""
    return f"{_origin(parts)}{parts.path}{query}"


def event_url(url: str, *, secret: bool) -> str:
    """As in events: without query; scheme, host and port alone where the URL is a secret."""
    parts = urlsplit(url)
    return _origin(parts) if secret else f"{_origin(parts)}{parts.path}"


def _origin(parts: SplitResult) -> str:
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def shown_request(
    headers: Iterable[tuple[str, str]], *, secret_names: Collection[str]
) -> Mapping[str, str]:
    """Request headers with signatures, credentials and referenced values masked."""
    return {
        name: MASK if name.lower() in _ALWAYS_MASKED or name in secret_names else value
        for name, value in headers
    }


def shown_response(headers: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """Response headers, values of secret-looking ones masked, printable, at most 1,024 long."""
    return {
        name: MASK if _SECRET_NAME.search(name) else printable(value)[:1024]
        for name, value in headers
    }


def printable(text: str) -> str:
    """The text with characters that no log may hold replaced."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)
