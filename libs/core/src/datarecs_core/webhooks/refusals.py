"""What an action on webhooks is refused with."""

from datetime import datetime

from datarecs_core.errors.api import ApiCode
from datarecs_core.errors.base import DatarecsError
from datarecs_core.webhooks.actions import MAX_WINDOW, Window


class ActionOpenError(DatarecsError):
    """A recover or replay was requested while another one of the endpoint was open."""

    code = ApiCode.ACTION_OPEN

    def __init__(self, *, endpoint: str) -> None:
        super().__init__(
            f"endpoint {endpoint} has an open recover or replay; wait for its end or cancel it"
        )
        self.endpoint = endpoint


class TooManySecretsError(DatarecsError):
    """A rotation would leave more secrets than one request is signed with."""

    code = ApiCode.TOO_MANY_SECRETS

    def __init__(self, *, endpoint: str, most: int) -> None:
        super().__init__(
            f"endpoint {endpoint} signs with {most} secrets already; wait until one expires, "
            "or rotate with grace period PT0S"
        )
        self.endpoint, self.most = endpoint, most


class SecretNotManagedError(DatarecsError):
    """The signing secrets of the endpoint are references, which are rotated in its spec."""

    code = ApiCode.INVALID_INPUT

    def __init__(self, *, endpoint: str) -> None:
        super().__init__(
            f"a rotation is not allowed: endpoint {endpoint} signs with references; "
            "change spec.signing.secret_refs instead"
        )
        self.endpoint = endpoint


class TooManyMessagesError(DatarecsError):
    """The window of an action holds more than one action may send."""

    code = ApiCode.INVALID_INPUT

    def __init__(self, *, most: int) -> None:
        super().__init__(
            f"the window holds more than {most} messages; choose a shorter one or fewer types"
        )
        self.most = most


def window_fault(window: Window, *, now: datetime) -> tuple[str, str] | None:
    """Which field of a window is wrong and why, or None."""
    if window.since < now - MAX_WINDOW:
        return "since", f"the window starts more than {MAX_WINDOW.days} days ago"
    if window.until > now:
        return "until", "the window ends in the future"
    if window.since >= window.until:
        return "since", "the window ends before it starts"
    return None
