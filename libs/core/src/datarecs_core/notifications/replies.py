"""What an SMTP reply means for a mail: reply codes in five classes.

Separate from the mail's state machine because the table changes only with the protocol.
"""

from dataclasses import dataclass
from enum import StrEnum


class Stage(StrEnum):
    """The command of a reply."""

    CONNECT = "CONNECT"
    """Banner, EHLO and STARTTLS."""
    AUTH = "AUTH"
    MAIL = "MAIL"
    RCPT = "RCPT"
    DATA = "DATA"
    """The DATA command or the end of the data."""


class ReplyClass(StrEnum):
    """Metric labels of `mail_attempts_total`."""

    ACCEPTED = "ACCEPTED"
    RETRY = "RETRY"
    """About this mail, for now."""
    PERMANENT = "PERMANENT"
    """About this mail, permanent."""
    TRANSPORT = "TRANSPORT"
    """About the relay, not about the mail."""
    CONFIGURATION = "CONFIGURATION"
    """The relay refuses the platform: a person must change a setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A reply as the relay gave it."""

    stage: Stage
    code: int
    text: str = ""
    """Sanitised, at most 500 characters; starts with the enhanced code if there is one."""


_NOT_NOW = frozenset({421, 454})
_LET_IN_REFUSED = frozenset({530, 534, 535})


def classify(reply: Reply) -> ReplyClass:
    """The class of a reply that is not the expected one, or of the final acceptance."""
    about_mail = reply.stage in {Stage.RCPT, Stage.DATA}
    if reply.code in _NOT_NOW:
        return ReplyClass.TRANSPORT
    if reply.code in _LET_IN_REFUSED:
        return ReplyClass.CONFIGURATION
    match reply.code // 100:
        case 2:
            return ReplyClass.ACCEPTED
        case 5:
            return ReplyClass.PERMANENT if about_mail else ReplyClass.CONFIGURATION
        case _:
            return ReplyClass.RETRY if about_mail else ReplyClass.TRANSPORT


_NO_SUCH_MAILBOX = ("5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10")


_FULL_MAILBOX = 552


def is_soft_bounce(reply: Reply) -> bool:
    """Whether the mailbox refuses mail for now: it is full, disabled, or limits the size."""
    if reply.stage not in {Stage.RCPT, Stage.DATA} or reply.code // 100 != 5:  # noqa: PLR2004  permanent
        return False
    enhanced = reply.text.split(" ")[0]
    if enhanced.startswith("5."):
        return enhanced.startswith("5.2.")
    return reply.code == _FULL_MAILBOX


def is_hard_bounce(reply: Reply) -> bool:
    """Whether the address does not exist, so that no further mail is sent to it."""
    if reply.stage is not Stage.RCPT or reply.code // 100 != 5:  # noqa: PLR2004  permanent
        return False
    enhanced = reply.text.split(" ")[0]
    if enhanced in _NO_SUCH_MAILBOX:
        return True
    return reply.code in {550, 553} and not enhanced.startswith("5.")
