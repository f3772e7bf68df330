"""W3C traceparent: made at the first step of a trace, taken apart, continued by a child.

Its own module because events, logs and outgoing requests carry the same 55 characters. No exporter
stands behind it; the ids alone join log lines and events of one story.
"""

import re
import secrets

_TRACEPARENT = re.compile(
    r"00-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})"
)
_NO_TRACE, _NO_SPAN = "0" * 32, "0" * 16


def new_traceparent() -> str:
    """A fresh trace with its first span, sampled."""
    return f"00-{_random_hex(16)}-{_random_hex(8)}-01"


def child_of(traceparent: str | None) -> str:
    """A new span of the same trace; a fresh trace when there is none or it is malformed."""
    match = _match(traceparent)
    if match is None:
        return new_traceparent()
    return f"00-{match['trace']}-{_random_hex(8)}-{match['flags']}"


def trace_id_of(traceparent: str | None) -> str | None:
    """The 32 hexadecimal characters that logs bind as `trace_id`; None when malformed."""
    match = _match(traceparent)
    return match["trace"] if match else None


def _match(traceparent: str | None) -> re.Match[str] | None:
    match = _TRACEPARENT.fullmatch(traceparent or "")
    if match is None or match["trace"] == _NO_TRACE or match["span"] == _NO_SPAN:
        return None
    return match


def _random_hex(count: int) -> str:
    # All zeros mean "no id"; setting the lowest bit excludes them and costs one bit.
    return (int.from_bytes(secrets.token_bytes(count)) | 1).to_bytes(count).hex()
