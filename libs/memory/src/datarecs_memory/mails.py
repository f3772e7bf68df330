"""Twin of the mail queue and of what notification rules remember."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from datarecs_application.ports.delivery import MailAttempt
from datarecs_core.notifications.evaluation import RuleState
from datarecs_core.notifications.mail import Mail
from datarecs_core.values import JobId, ResourceUid
from datarecs_memory.scope import Scope


class MemoryMails:
    """Port Mails."""

    def __init__(self, scope: Scope) -> None:
        self._rows = scope.state.delivery

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

    def keep_mime(self, delivery_id: UUID, mime: bytes) -> None:
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


class MemoryRuleStates:
    """Port RuleStates. Transactions run one after another, so nothing else is to be locked."""

    def __init__(self, scope: Scope) -> None:
        self._rows = scope.state.delivery.rule_states

    def of_job(self, job: JobId) -> Mapping[ResourceUid, RuleState]:
        return {uid: state for (uid, of), state in self._rows.items() if of == job}

    def save(self, states: Sequence[RuleState]) -> None:
        for state in states:
            self._rows[state.rule_uid, state.job_id] = state
