"""Why a recipient gets no mail, in words, and what changes it."""

from collections.abc import Mapping

from datarecs_core.notifications.evaluation import SkipReason

_WORDS: Mapping[SkipReason, str] = {
    SkipReason.STALE: "the run ended more than 24 hours ago",
    SkipReason.NO_MATCHING_RULE: "the rule does not match this run; check its `match`",
    SkipReason.SUPERSEDED: "a later run of the job has ended",
    SkipReason.NOT_CHANGED: "the outcome is that of the run before; `notify: every_run` sends each",
    SkipReason.MUTED: "a mute of the rule holds",
    SkipReason.BELOW_CONSECUTIVE: "fewer runs in a row than `after_consecutive` did not match",
    SkipReason.UNRESOLVED: "this is not an address",
    SkipReason.UNVERIFIED: "the domain of the address is not allowed for this tenant; the operator"
    " allows it with DATARECS_MAIL__RECIPIENT_DOMAINS",
    SkipReason.UNSUBSCRIBED: "the recipient has unsubscribed",
    SkipReason.SUPPRESSED: "earlier mails to the address were refused; the list is at"
    " /api/v1/email-suppressions",
    SkipReason.QUIET_HOURS: "quiet hours with `behaviour: skip` hold",
    SkipReason.RECIPIENT_CAP: "the run has more recipients than it can mail",
    SkipReason.FOLDED: "a digest has taken its place",
}


def mail_reason(reason: object) -> str:
    """The name of the reason and its meaning; a name of a newer server alone."""
    text = str(reason)
    return f"{text}: {_WORDS[SkipReason(text)]}" if text in set(SkipReason) else text
