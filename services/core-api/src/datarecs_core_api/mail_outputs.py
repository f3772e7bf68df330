"""Responses of the API about mails: the queue, attempts, previews of rules, refused addresses."""

from uuid import UUID

from datarecs_core_api.outputs import Instant, Out
from datarecs_core_api.published_types import Count, Line, MailPart, NameOut, Word


class MailOut(Out):
    """One mail of the queue, sent or left out."""

    delivery_id: UUID
    run_id: UUID | None
    job_id: UUID | None
    recipient: Line
    rules: list[NameOut]
    kind: Word
    detail: Word
    outcome: Line
    state: Word
    reason: Word | None
    """Why it failed or was left out."""
    due_at: Instant | None
    """When it leaves; absent once it has ended."""
    finalised_at: Instant
    attempts: Count
    message_id: Line
    last_reply: Line
    """The last reply of the relay."""
    runs: list[UUID]
    """Of a digest: the runs in it."""
    created_at: Instant


class MailAttemptOut(Out):
    """One SMTP transaction of a mail."""

    attempt_no: Count
    started_at: Instant
    finished_at: Instant | None
    phase: Word
    code: Count | None
    text: Line
    error: Line
    relay: Line
    tls_version: Line


class PreviewRecipientOut(Out):
    """One recipient of a rule, and whether it would be mailed."""

    address: Line
    kind: Word
    skipped: Word | None
    """Why not; absent where it would be mailed."""
    due_at: Instant | None
    """When it would leave; absent for at once."""


class HeldRuleOut(Out):
    """Why the rule would send no mail."""

    rule: NameOut | None
    reason: Word


class RulePreviewOut(Out):
    """What a rule would send about a run."""

    recipients: list[PreviewRecipientOut]
    held: list[HeldRuleOut]
    subject: Line | None
    """Absent where no mail would be sent; then the parts are absent too."""
    text: MailPart | None
    html: MailPart | None


class SuppressionOut(Out):
    """An address that gets no mail because it was refused."""

    address: Line
    reason: Word
    reply: Line
    """The reply of the relay, or the text of a report."""
    created_at: Instant
    ends_at: Instant | None
    """When mails are sent again; absent until the entry is deleted."""
