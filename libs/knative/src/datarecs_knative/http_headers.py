"""The headers of an event on Kafka and over HTTP: `ce_id` there is `ce-id` here.

HTTP allows fewer characters, so values are percent-encoded as the HTTP binding of CloudEvents says.
One module for both directions.
"""

import re
from collections.abc import Iterable
from urllib.parse import unquote_to_bytes

ATTRIBUTE = re.compile(r"ce-[a-z0-9]{1,20}", re.IGNORECASE)
_UNENCODED = frozenset(range(0x21, 0x7F)) - {ord('"'), ord("%")}


def http_headers(headers: Iterable[tuple[str, bytes]]) -> dict[str, str]:
    """Headers of a record of the log, for a request."""
    return {name.replace("ce_", "ce-", 1): _encoded(value) for name, value in headers}


def log_headers(headers: Iterable[tuple[str, str]]) -> tuple[tuple[str, bytes | None], ...]:
    """Headers of a request, as a record of the log has them; others are left out."""
    return tuple(
        (name.lower().replace("ce-", "ce_", 1), unquote_to_bytes(value))
        for name, value in headers
        if ATTRIBUTE.fullmatch(name) or name.lower() == "content-type"
    )


def _encoded(value: bytes) -> str:
    return "".join(chr(byte) if byte in _UNENCODED else f"%{byte:02X}" for byte in value)
