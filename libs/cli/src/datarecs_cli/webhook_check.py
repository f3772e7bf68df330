"""Checks that a request is a genuine delivery, as Standard Webhooks 1.0 requires of receivers.

Pure and total: for any headers and body the result is a reason or None, never an exception. Core
has the signing. Source: spec notifications 1.4, security X94.
"""

import hmac
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from datarecs_core.webhooks.signature import is_signable_id, sign

TOLERANCE_S = 300
"""Older or newer deliveries are refused, so that a recorded one cannot be sent again later."""
_TIMESTAMP = re.compile(r"[0-9]{1,12}", re.ASCII)
_SCHEME = "v1,"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    headers: Mapping[str, str]
    """Names in lower case; the first header of a repeated name."""
    body: bytes

    def header(self, name: str) -> str:
        return self.headers.get(name, "")


def fault_of(request: Request, keys: Sequence[bytes], *, now_s: float) -> str | None:
    """Why the request is not a delivery signed with one of these keys; None if it is one.

    Args:
        request: any request.
        keys: every key that may have signed it.
        now_s: Unix time here.
    """
    event_id, timestamp = request.header("webhook-id"), request.header("webhook-timestamp")
    if not is_signable_id(event_id):
        return "webhook-id is missing or malformed"
    if not _TIMESTAMP.fullmatch(timestamp):
        return "webhook-timestamp is missing or not a number of seconds"
    if abs(now_s - int(timestamp)) > TOLERANCE_S:
        return f"webhook-timestamp is more than {TOLERANCE_S} s from now"
    signatures = [one for one in request.header("webhook-signature").split(" ") if one]
    if not any(one.startswith(_SCHEME) for one in signatures):
        return "webhook-signature is missing or not of scheme v1"
    wanted = [
        sign([key], event_id=event_id, timestamp=int(timestamp), body=request.body).encode()
        for key in keys
    ]
    seen = [one.encode("utf-8", "replace") for one in signatures]
    if not any(hmac.compare_digest(one, other) for one in seen for other in wanted):
        return "no signature matches the secret; the secret is wrong, or the body was altered"
    return None


def event_of(request: Request) -> Mapping[str, object]:
    """The CloudEvent of the body, or of the headers in binary mode; empty if there is none."""
    try:
        document = json.loads(request.body)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(document, dict):
        return {}
    if "ce-type" in request.headers:
        return {"type": request.header("ce-type"), "id": request.header("ce-id"), "data": document}
    return document
