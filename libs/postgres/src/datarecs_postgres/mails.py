"""The rows of the mail queue and of the states of notification rules."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from enum import Enum
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Row, func, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert

from datarecs_application.ports.delivery import MailAttempt, MailFilter
from datarecs_core.documents import from_document, to_document
from datarecs_core.notifications.evaluation import Background, MailKind, RuleState, SkipReason
from datarecs_core.notifications.mail import (
    RATE_FOLD,
    Folded,
    Mail,
    MailReason,
    MailState,
    Notice,
    Phase,
)
from datarecs_core.notifications.replies import Reply, Stage
from datarecs_core.notifications.rule import Detail
from datarecs_core.values import JobId, ResourceUid, RunId, TenantId, aware
from datarecs_postgres.session import Session
from datarecs_postgres.tables.mails import (
    EMAIL_ATTEMPT,
    EMAIL_DELIVERY,
    NOTIFICATION_RULE_STATE,
)

_MAIL = tuple(one.name for one in fields(Mail))
_SHOWN = [EMAIL_DELIVERY.c[name] for name in _MAIL]
"""Every column of a mail except its bytes, which are large and read separately."""
_STATE = tuple(one.name for one in fields(RuleState))


class PostgresMails:
    """Port Mails."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, mail: Mail) -> bool:
        added = self._session.execute(
            insert(EMAIL_DELIVERY).values(_mail_row(mail)).on_conflict_do_nothing().inline()
        )
        return bool(added.rowcount)

    def get(self, delivery_id: UUID) -> Mail | None:
        row = self._session.execute(
            select(*_SHOWN).where(*self._by_id(delivery_id)).with_for_update()
        ).one_or_none()
        return None if row is None else _mail_of(row)

    def save(self, mail: Mail) -> None:
        # Release the claim: the mail has been processed.
        self._session.execute(
            update(EMAIL_DELIVERY)
            .where(*self._by_id(mail.delivery_id))
            .values(**_mail_row(mail), claimed_until=None)
        )

    def mime(self, delivery_id: UUID) -> bytes | None:
        content = self._session.execute(
            select(EMAIL_DELIVERY.c.mime).where(*self._by_id(delivery_id))
        ).scalar()
        return None if content is None else bytes(content)

    def store_mime(self, delivery_id: UUID, mime: bytes) -> None:
        self._session.execute(
            update(EMAIL_DELIVERY).where(*self._by_id(delivery_id)).values(mime=mime)
        )

    def open_attempt(self, attempt: MailAttempt) -> None:
        self._session.execute(
            insert(EMAIL_ATTEMPT)
            .values(
                tenant_id=self._session.tenant_id,
                delivery_id=attempt.delivery_id,
                attempt_no=attempt.attempt_no,
                started_at=attempt.started_at,
                phase=attempt.phase,
                relay=attempt.relay,
            )
            .inline()
        )

    def close_attempt(self, attempt: MailAttempt) -> None:
        reply = attempt.reply
        self._session.execute(
            update(EMAIL_ATTEMPT)
            .where(
                *self._attempts(attempt.delivery_id),
                EMAIL_ATTEMPT.c.attempt_no == attempt.attempt_no,
                EMAIL_ATTEMPT.c.finished_at.is_(None),
            )
            .values(
                finished_at=attempt.finished_at,
                phase=attempt.phase,
                stage=reply.stage.value if reply else None,
                code=reply.code if reply else None,
                text=reply.text if reply else "",
                error=attempt.error,
                tls_version=attempt.tls_version,
            )
        )

    def attempts(self, delivery_id: UUID) -> list[MailAttempt]:
        rows = self._session.execute(
            select(EMAIL_ATTEMPT)
            .where(*self._attempts(delivery_id))
            .order_by(EMAIL_ATTEMPT.c.attempt_no)
        )
        return [_attempt_of(row) for row in rows]

    def of_run(self, run_id: UUID) -> list[Mail]:
        rows = self._session.execute(
            select(*_SHOWN)
            .where(self._session.tenant_rows(EMAIL_DELIVERY), EMAIL_DELIVERY.c.run_id == run_id)
            .order_by(EMAIL_DELIVERY.c.recipient_key)
        )
        return [_mail_of(row) for row in rows]

    def of_ids(self, delivery_ids: Sequence[UUID]) -> list[Mail]:
        rows = self._session.execute(
            select(*_SHOWN)
            .where(
                self._session.tenant_rows(EMAIL_DELIVERY),
                EMAIL_DELIVERY.c.delivery_id.in_(delivery_ids),
            )
            .order_by(EMAIL_DELIVERY.c.finalised_at, EMAIL_DELIVERY.c.delivery_id)
        )
        return [_mail_of(row) for row in rows]

    def fold_of(self, mail: Mail) -> list[Mail] | None:
        table = EMAIL_DELIVERY
        # The holder of this lock may wait for rows of the group; no sender waits for the lock, so
        # two senders that each hold a row cannot block each other.
        lock = self._lock(f"mail-fold:{mail.fold}:{mail.recipient_key}")
        if not self._session.execute(select(func.pg_try_advisory_xact_lock(lock))).scalar():
            return None
        is_due = [] if mail.fold == RATE_FOLD else [table.c.due_at <= func.now()]
        rows = self._session.execute(
            select(*_SHOWN)
            .where(
                self._session.tenant_rows(table),
                table.c.recipient_key == mail.recipient_key,
                table.c.fold == mail.fold,
                table.c.state == MailState.PENDING.value,
                *is_due,
            )
            .order_by(table.c.finalised_at, table.c.delivery_id)
            .with_for_update()
        )
        return [_mail_of(row) for row in rows]

    def opened_since(self, since: datetime, recipient_key: str | None = None) -> int:
        table = EMAIL_DELIVERY
        whose: list[ColumnElement[bool]] = []
        if recipient_key is not None:
            lock = self._lock(f"mail-rate:{recipient_key}")
            self._session.execute(select(func.pg_advisory_xact_lock(lock)))
            whose.append(table.c.recipient_key == recipient_key)
        counted = self._session.execute(
            select(func.count()).where(
                self._session.tenant_rows(table), table.c.opened_at > since, *whose
            )
        )
        return int(counted.scalar_one())

    def page(self, where: MailFilter, limit: int) -> list[Mail]:
        table = EMAIL_DELIVERY
        wanted = [self._session.tenant_rows(table)]
        if where.run_id is not None:
            wanted.append(table.c.run_id == where.run_id)
        if where.state is not None:
            wanted.append(table.c.state == where.state.value)
        if where.before is not None:
            place = tuple_(table.c.created_at, table.c.delivery_id)
            wanted.append(place < tuple_(*where.before))
        rows = self._session.execute(
            select(*_SHOWN)
            .where(*wanted)
            .order_by(table.c.created_at.desc(), table.c.delivery_id.desc())
            .limit(limit)
        )
        return [_mail_of(row) for row in rows]

    def _lock(self, name: str) -> ColumnElement[int]:
        """The number of an advisory lock of this tenant."""
        return func.hashtextextended(f"{self._session.tenant_id}:{name}", 0)

    def _by_id(self, delivery_id: UUID) -> tuple[ColumnElement[bool], ...]:
        return (
            self._session.tenant_rows(EMAIL_DELIVERY),
            EMAIL_DELIVERY.c.delivery_id == delivery_id,
        )

    def _attempts(self, delivery_id: UUID) -> tuple[ColumnElement[bool], ...]:
        return (
            self._session.tenant_rows(EMAIL_ATTEMPT),
            EMAIL_ATTEMPT.c.delivery_id == delivery_id,
        )


class PostgresRuleStates:
    """Port RuleStates."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def of_job(self, job: JobId) -> Mapping[ResourceUid, RuleState]:
        # A row that does not exist yet cannot be locked, and two runs of one job may be evaluated
        # at the same time: the job's lock orders them, until the transaction ends.
        lock = func.hashtextextended(f"rule-states:{self._session.tenant_id}:{job}", 0)
        self._session.execute(select(func.pg_advisory_xact_lock(lock)))
        table = NOTIFICATION_RULE_STATE
        rows = self._session.execute(
            select(table).where(self._session.tenant_rows(table), table.c.job_id == job)
        )
        return {ResourceUid(row.rule_uid): _rule_state_of(row) for row in rows}

    def save(self, states: Sequence[RuleState]) -> None:
        for state in states:
            values = {name: getattr(state, name) for name in _STATE}
            row = insert(NOTIFICATION_RULE_STATE).values(
                tenant_id=self._session.tenant_id, **values
            )
            self._session.execute(
                row.on_conflict_do_update(
                    index_elements=["tenant_id", "rule_uid", "job_id"], set_=values
                ).inline()
            )


def _written(value: object) -> object:
    return value.value if isinstance(value, Enum) else value


def _mail_row(mail: Mail) -> dict[str, Any]:
    before, notice = mail.background, mail.notice
    return {name: _written(getattr(mail, name)) for name in _MAIL} | {
        "rules": list(mail.rules),
        "rule_uids": list(mail.rule_uids),
        "folded": [to_document(one) for one in mail.folded],
        "notice": None if notice is None else to_document(notice),
        "background": {
            "since": before.since.isoformat() if before.since else None,
            "runs": before.runs,
            "first_told": before.alert_outcome,
        },
    }


def _mail_of(row: Row[Any]) -> Mail:
    values = _plain(row, _MAIL)
    before = values["background"]
    return Mail(
        **values
        | {
            "tenant_id": TenantId(row.tenant_id),
            "run_id": None if row.run_id is None else RunId(row.run_id),
            "job_id": None if row.job_id is None else JobId(row.job_id),
            "rules": tuple(row.rules),
            "rule_uids": tuple(ResourceUid(uid) for uid in row.rule_uids),
            "folded": tuple(from_document(Folded, one) for one in row.folded),
            "notice": None if row.notice is None else from_document(Notice, row.notice),
            "kind": MailKind(row.kind),
            "detail": Detail(row.detail),
            "background": Background(
                since=datetime.fromisoformat(before["since"]) if before["since"] else None,
                runs=before["runs"],
                alert_outcome=before["first_told"],
            ),
            "state": MailState(row.state),
            "reason": _reason(row.state, row.reason),
            "phase": None if row.phase is None else Phase(row.phase),
        }
    )


def _reason(state: str, reason: str | None) -> MailReason | SkipReason | None:
    if reason is None:
        return None
    return SkipReason(reason) if state == MailState.SKIPPED else MailReason(reason)


def _attempt_of(row: Row[Any]) -> MailAttempt:
    reply = None
    if row.code is not None:
        reply = Reply(stage=Stage(row.stage), code=row.code, text=row.text)
    return MailAttempt(
        delivery_id=row.delivery_id,
        attempt_no=row.attempt_no,
        started_at=aware(row.started_at),
        finished_at=None if row.finished_at is None else aware(row.finished_at),
        phase=row.phase,
        reply=reply,
        error=row.error,
        relay=row.relay,
        tls_version=row.tls_version,
    )


def _rule_state_of(row: Row[Any]) -> RuleState:
    values = _plain(row, _STATE)
    return RuleState(**values)


def _plain(row: Row[Any], names: Sequence[str]) -> dict[str, Any]:
    """Values by column name, times in UTC."""
    values = {name: getattr(row, name) for name in names}
    return {
        name: aware(value) if isinstance(value, datetime) else value
        for name, value in values.items()
    }
