"""Twin of the mail queue and of the states of notification rules."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from datarecs_application.ports.delivery import MailAttempt, MailFilter, Suppression
from datarecs_core.notifications.evaluation import RuleState
from datarecs_core.notifications.feedback import NewSuppression
from datarecs_core.notifications.mail import RATE_FOLD, Mail, MailState
from datarecs_core.values import JobId, ResourceUid, RunId
from datarecs_memory.scope import Scope


class MemoryMails:
    """Port Mails."""

    def __init__(self, scope: Scope) -> None:
        self._rows, self._scope = scope.state.delivery, scope

    def add(self, mail: Mail) -> bool:
        if any(one.dedupe_key == mail.dedupe_key for one in self._rows.mails.values()):
            return False
        self._rows.mails[mail.delivery_id] = mail
        return True

    def get(self, delivery_id: UUID) -> Mail | None:
        return self._rows.mails.get(delivery_id)

    def save(self, mail: Mail) -> None:
        self._rows.mails[mail.delivery_id] = mail
        self._rows.mails_claimed_until.pop(mail.delivery_id, None)

    def mime(self, delivery_id: UUID) -> bytes | None:
        return self._rows.mimes.get(delivery_id)

    def store_mime(self, delivery_id: UUID, mime: bytes) -> None:
        self._rows.mimes[delivery_id] = mime

    def open_attempt(self, attempt: MailAttempt) -> None:
        self._rows.mail_attempts[attempt.delivery_id, attempt.attempt_no] = attempt

    def close_attempt(self, attempt: MailAttempt) -> None:
        key = (attempt.delivery_id, attempt.attempt_no)
        opened = self._rows.mail_attempts.get(key)
        if opened is not None and opened.finished_at is None:
            self._rows.mail_attempts[key] = replace(
                attempt, started_at=opened.started_at, relay=opened.relay
            )

    def attempts(self, delivery_id: UUID) -> list[MailAttempt]:
        mine = [one for one in self._rows.mail_attempts.values() if one.delivery_id == delivery_id]
        return sorted(mine, key=lambda one: one.attempt_no)

    def of_run(self, run_id: UUID) -> list[Mail]:
        mine = [one for one in self._rows.mails.values() if one.run_id == run_id]
        return sorted(mine, key=lambda one: one.recipient_key)

    def of_ids(self, delivery_ids: Sequence[UUID]) -> list[Mail]:
        mails = [self._rows.mails[one] for one in delivery_ids if one in self._rows.mails]
        return sorted(mails, key=_by_end)

    def fold_of(self, mail: Mail) -> list[Mail] | None:
        mails = [
            one
            for one in self._rows.mails.values()
            if one.state is MailState.PENDING
            and one.fold == mail.fold
            and one.recipient_key == mail.recipient_key
            and (
                mail.fold == RATE_FOLD or (one.due_at is not None and one.due_at <= self._scope.now)
            )
        ]
        return sorted(mails, key=_by_end)

    def opened_since(self, since: datetime, recipient_key: str | None = None) -> int:
        return sum(
            mail.opened_at is not None
            and mail.opened_at > since
            and recipient_key in {None, mail.recipient_key}
            for mail in self._rows.mails.values()
        )

    def page(self, where: MailFilter, limit: int) -> list[Mail]:
        newest = sorted(self._rows.mails.values(), key=_place, reverse=True)
        return [mail for mail in newest if _is_wanted(mail, where)][:limit]


def _place(mail: Mail) -> tuple[datetime, UUID]:
    return mail.created_at, mail.delivery_id


def _by_end(mail: Mail) -> tuple[datetime, UUID]:
    return mail.finalised_at, mail.delivery_id


def _is_wanted(mail: Mail, where: MailFilter) -> bool:
    return (
        where.run_id in {None, mail.run_id}
        and where.state in {None, mail.state}
        and (where.before is None or _place(mail) < where.before)
    )


class MemoryMailChoices:
    """Port MailChoices."""

    def __init__(self, scope: Scope) -> None:
        self._rows, self._scope = scope.state.delivery, scope

    def unsubscribed(self, scopes: Collection[str]) -> Collection[tuple[str, str]]:
        return {pair for pair in self._rows.unsubscribed if pair[1] in scopes}

    def unsubscribe(self, recipient_hash: str, scopes: Collection[str]) -> None:
        self._rows.unsubscribed.update((recipient_hash, scope) for scope in scopes)

    def suppressed(self, keys: Collection[str]) -> Collection[str]:
        return {row.recipient_key for row in self._live() if row.recipient_key in keys}

    def suppress(self, made: NewSuppression) -> None:
        before = self._rows.suppressions.get(made.recipient_key)
        if before is None or before.ends_at is not None:
            self._rows.suppressions[made.recipient_key] = Suppression(
                made.recipient_key, made.reason, made.text, self._scope.now, made.ends_at
            )

    def _live(self) -> list[Suppression]:
        rows = self._rows.suppressions.values()
        return [row for row in rows if row.ends_at is None or row.ends_at > self._scope.now]

    def suppressions(self, limit: int) -> list[Suppression]:
        rows = self._live()
        return sorted(rows, key=lambda row: (row.created_at, row.recipient_key), reverse=True)[
            :limit
        ]

    def release(self, recipient_key: str) -> bool:
        bounces = self._rows.bounces
        self._rows.bounces = {key: at for key, at in bounces.items() if key[0] != recipient_key}
        return self._rows.suppressions.pop(recipient_key, None) is not None

    def count_soft_bounce(self, recipient_key: str, report_id: str, *, since: datetime) -> int:
        self._rows.bounces.setdefault((recipient_key, report_id), self._scope.now)
        recent = {key: at for key, at in self._rows.bounces.items() if at >= since}
        self._rows.bounces = recent
        return sum(key == recipient_key for key, _ in recent)

    def revoke_report_links(self, run_id: RunId) -> None:
        self._rows.revoked_links[run_id] = self._scope.now

    def report_links_revoked_at(self, run_id: RunId) -> datetime | None:
        return self._rows.revoked_links.get(run_id)


class MemoryRuleStates:
    """Port RuleStates. Transactions run one after another, so nothing must be locked."""

    def __init__(self, scope: Scope) -> None:
        self._rows = scope.state.delivery.rule_states

    def of_job(self, job: JobId) -> Mapping[ResourceUid, RuleState]:
        return {uid: state for (uid, of), state in self._rows.items() if of == job}

    def save(self, states: Sequence[RuleState]) -> None:
        for state in states:
            self._rows[state.rule_uid, state.job_id] = state
