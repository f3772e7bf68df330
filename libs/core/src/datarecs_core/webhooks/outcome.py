"""How an attempt ended, as data, and what a receiver may request in its response.

The sender reports facts; the effects on delivery and endpoint are decided in `delivery` and
`health`, from these values and database time alone.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

MAX_RETRY_AFTER = timedelta(days=1)


class Outcome(StrEnum):
    """The closed list; names are metric labels and are in the attempt log."""

    OK = "OK"
    HTTP_3XX = "HTTP_3XX"
    """Never followed."""
    HTTP_4XX = "HTTP_4XX"
    HTTP_410 = "HTTP_410"
    HTTP_429 = "HTTP_429"
    HTTP_5XX = "HTTP_5XX"
    TIMEOUT = "TIMEOUT"
    DNS_FAILED = "DNS_FAILED"
    CONNECT_FAILED = "CONNECT_FAILED"
    TLS_FAILED = "TLS_FAILED"
    PROTOCOL_ERROR = "PROTOCOL_ERROR"
    """Includes a connection cut before the status line."""
    BLOCKED_ADDRESS = "BLOCKED_ADDRESS"
    SECRET_UNAVAILABLE = "SECRET_UNAVAILABLE"  # noqa: S105  an outcome, no secret
    WORKER_LOST = "WORKER_LOST"
    """The lease ran out: whether the request arrived is unknown."""

    @property
    def counts_as_failure(self) -> bool:
        """Whether it counts against the receiver's health."""
        return self not in _NOT_THE_RECEIVER


_NOT_THE_RECEIVER = frozenset(
    {Outcome.OK, Outcome.HTTP_410, Outcome.HTTP_429, Outcome.SECRET_UNAVAILABLE}
    | {Outcome.WORKER_LOST}
)


class ReceiverWish(StrEnum):
    """The request of the receiver in its `webhook-delivery` header."""

    ABORT_MESSAGE = "abort-message"
    DISABLE = "disable"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    """The facts of an ended attempt."""

    outcome: Outcome
    status: int | None = None
    retry_after: str | None = None
    """The header as received."""
    wish: ReceiverWish | None = None
    error: str = ""
    """For people, sanitised: no address, no secret, no body."""


def outcome_of_status(status: int) -> Outcome:
    """The outcome that an HTTP status line fixes; the body does not change it."""
    if status in {410, 429}:
        return Outcome(f"HTTP_{status}")
    return _BY_FAMILY.get(status // 100, Outcome.PROTOCOL_ERROR)


_BY_FAMILY = {
    2: Outcome.OK,
    3: Outcome.HTTP_3XX,
    4: Outcome.HTTP_4XX,
    5: Outcome.HTTP_5XX,
}


def wish_of(header: str | None) -> ReceiverWish | None:
    """The receiver's request, or None for an absent or unknown value."""
    wished = (header or "").strip()
    return ReceiverWish(wished) if wished in set(ReceiverWish) else None


UNSAID_PAUSE = timedelta(seconds=60)
"""Of an endpoint that returns 429 without a usable Retry-After."""

_SERVICE_UNAVAILABLE = 503
_DIGITS = re.compile(r"[0-9]{1,20}")
_IMF_FIXDATE = "%a, %d %b %Y %H:%M:%S GMT"


def retry_after(value: str | None, *, now: datetime) -> timedelta | None:
    """The requested wait, at most a day; None for anything not well formed.

    Whole seconds or an IMF-fixdate in the future; negative, fractional, scientific and past
    values are ignored.
    """
    text = (value or "").strip()
    if _DIGITS.fullmatch(text):
        return timedelta(seconds=min(int(text), MAX_RETRY_AFTER.total_seconds()))
    try:
        moment = datetime.strptime(text, _IMF_FIXDATE).replace(tzinfo=UTC)
    except ValueError:
        return None
    ahead = moment - now
    return min(ahead, MAX_RETRY_AFTER) if ahead > timedelta() else None


def requested_wait(end: AttemptEnd, *, now: datetime) -> timedelta | None:
    """The wait of a 429 or 503 with a well-formed Retry-After; of no other status."""
    if end.outcome is Outcome.HTTP_429 or end.status == _SERVICE_UNAVAILABLE:
        return retry_after(end.retry_after, now=now)
    return None


def requested_pause(end: AttemptEnd, *, now: datetime) -> timedelta | None:
    """How long the whole endpoint pauses after this response; a 429 always means a pause."""
    wait = requested_wait(end, now=now)
    return UNSAID_PAUSE if wait is None and end.outcome is Outcome.HTTP_429 else wait
