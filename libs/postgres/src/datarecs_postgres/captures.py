"""The rows of `capture_work` with their claim keys and cancel marks, in one transaction."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Text,
    Uuid,
    any_,
    bindparam,
    cast,
    func,
    select,
    text,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from datarecs_application.ports.capturing import Added, WorkFilter
from datarecs_core.captures.items import (
    CANCEL_GRACE,
    LEASE,
    RECLAIM_GRACE,
    CaptureJobId,
    WorkItem,
    WorkState,
    WorkToken,
)
from datarecs_postgres.capture_rows import MUTABLE, changes_of, item_of, row_of
from datarecs_postgres.session import Session, Woken
from datarecs_postgres.tables.captures import CAPTURE_CANCEL, CAPTURE_WORK

_WORK = CAPTURE_WORK.c
_MINE = _WORK.tenant_id == bindparam("of_tenant")
_READ = select(CAPTURE_WORK).where(_MINE, _WORK.id == bindparam("of_id"))
_LOCKED = _READ.with_for_update(key_share=True)
_SAVE = (
    update(CAPTURE_WORK)
    .where(_MINE, _WORK.id == bindparam("of_id"))
    .values({name: bindparam(name, type_=_WORK[name].type) for name in MUTABLE})
)
_ADD = insert(CAPTURE_WORK).on_conflict_do_nothing().returning(_WORK.id)
_OF_PARENT = (_MINE, _WORK.parent_id == bindparam("of_parent"))
_LIVE_CHILDREN = (
    select(CAPTURE_WORK)
    .where(*_OF_PARENT, _WORK.finished_at.is_(None))
    .limit(bindparam("most", type_=BigInteger))
)
_CHILD_STATES = select(_WORK.state, func.count()).where(*_OF_PARENT).group_by(_WORK.state)
_IS_CANCELLED = select(CAPTURE_CANCEL.c.item_id).where(
    CAPTURE_CANCEL.c.tenant_id == bindparam("of_tenant"),
    CAPTURE_CANCEL.c.item_id == any_(cast(bindparam("above", type_=ARRAY(Uuid)), ARRAY(Uuid))),
)
_FREE_KEY = select(
    func.datarecs.capture_free_key(
        bindparam("of_tenant", type_=Uuid),
        bindparam("of_id", type_=Uuid),
        bindparam("of_key", type_=Text),
    )
)
_TOKENS = (
    func.unnest(
        cast(bindparam("ids", type_=ARRAY(Uuid)), ARRAY(Uuid)),
        cast(bindparam("epochs", type_=ARRAY(BigInteger)), ARRAY(BigInteger)),
    )
    .table_valued("id", "epoch")
    .render_derived()
)
_RENEW = (
    update(CAPTURE_WORK)
    .where(
        _MINE,
        _WORK.id == _TOKENS.c.id,
        _WORK.epoch == _TOKENS.c.epoch,
        _WORK.lease_until > func.clock_timestamp(),
    )
    .values(
        lease_until=func.least(
            func.clock_timestamp() + LEASE,
            _WORK.deadline_at,
            _WORK.cancel_requested_at + CANCEL_GRACE,
        )
    )
    .returning(_WORK.id, _WORK.epoch, _WORK.state)
)
_BELOW = text(
    "SELECT b.id FROM datarecs.capture_cancel c CROSS JOIN LATERAL ("
    " SELECT w.id FROM datarecs.capture_work m JOIN datarecs.capture_work w"
    " ON w.tenant_id = m.tenant_id AND w.root_id = m.root_id AND w.finished_at IS NULL"
    " AND w.state <> 'CANCELLING' AND c.item_id = ANY (w.ancestors)"
    " WHERE m.tenant_id = c.tenant_id AND m.id = c.item_id) b"
    " WHERE c.tenant_id = :of_tenant LIMIT :most"
)
_DROP_MARKS = text(
    "DELETE FROM datarecs.capture_cancel c WHERE c.tenant_id = :of_tenant AND NOT EXISTS ("
    " SELECT FROM datarecs.capture_work m JOIN datarecs.capture_work w"
    " ON w.tenant_id = m.tenant_id AND w.root_id = m.root_id AND w.finished_at IS NULL"
    " AND c.item_id = ANY (w.ancestors)"
    " WHERE m.tenant_id = c.tenant_id AND m.id = c.item_id)"
)
_COUNTERS = text(
    "WITH below AS (SELECT w.kind, w.state, w.finished_at, w.counters"
    " FROM datarecs.capture_work w JOIN datarecs.capture_work top"
    " ON top.tenant_id = w.tenant_id AND top.root_id = w.root_id"
    " WHERE top.tenant_id = :of_tenant AND top.id = :of_id"
    " AND (w.id = top.id OR top.id = ANY (w.ancestors)))"
    " SELECT n.key AS name, sum(n.value::bigint)::bigint AS total"
    " FROM below b, jsonb_each_text(b.counters) n"
    " GROUP BY n.key UNION ALL"
    " SELECT CASE b.state WHEN 'SUCCEEDED' THEN 'file_groups_completed'"
    " ELSE 'file_groups_failed' END, count(*) FROM below b"
    " WHERE b.kind = 'EXEC_FILE_GROUP' AND b.finished_at IS NOT NULL GROUP BY 1 UNION ALL"
    " SELECT CASE b.kind WHEN 'PLAN_TABLE' THEN 'tables_failed' ELSE 'views_failed' END, count(*)"
    " FROM below b WHERE b.kind IN ('PLAN_TABLE', 'PLAN_VIEW') AND b.state = 'FAILED' GROUP BY 1"
)
_OLD = text(
    "SELECT r.id FROM datarecs.capture_work r WHERE r.tenant_id = :of_tenant"
    " AND r.parent_id IS NULL AND r.finished_at < :before"
    " AND NOT EXISTS (SELECT FROM datarecs.capture_work l WHERE l.tenant_id = r.tenant_id"
    " AND l.root_id = r.id AND l.finished_at IS NULL)"
    " ORDER BY r.finished_at LIMIT :most"
)
_REMOVE = text(
    "DELETE FROM datarecs.capture_work w USING ("
    " SELECT p.id FROM datarecs.capture_work p WHERE p.tenant_id = :of_tenant"
    " AND p.root_id = ANY (:roots) LIMIT :most) part"
    " WHERE w.tenant_id = :of_tenant AND w.id = part.id"
)
REMOVED_AT_ONCE = 10_000
"""Items of one statement, so that it ends long before the limit of its time."""


class PostgresWorkItems:
    """Port WorkItems."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, items: Sequence[WorkItem]) -> Sequence[Added]:
        missing, added = list(items), dict[CaptureJobId, Added]()
        while missing:
            rows = self._session.execute(_ADD, [row_of(item) for item in missing])
            new = {row.id for row in rows}
            known = self._owners([item for item in missing if item.id not in new])
            for item in missing:
                holder = item.id if item.id in new else known.get(item.dedupe)
                if holder is not None:
                    added[item.id] = Added(id=CaptureJobId(holder), is_new=holder == item.id)
            # The owner of a key may have ended between the two statements: then there is room.
            missing = [item for item in missing if item.id not in added]
        return [added[item.id] for item in items]

    def _owners(self, items: Sequence[WorkItem]) -> Mapping[str, CaptureJobId]:
        if not items:
            return {}
        is_owner = (_WORK.parent_id.is_not(None)) | _WORK.state.in_(
            [WorkState.QUEUED.value, WorkState.RUNNING.value, WorkState.WAITING.value]
        )
        rows = self._session.execute(
            select(_WORK.dedupe, _WORK.id).where(
                self._session.tenant_rows(CAPTURE_WORK),
                _WORK.dedupe.in_({item.dedupe for item in items}),
                is_owner,
            )
        )
        return {row.dedupe: row.id for row in rows}

    def get(self, item_id: CaptureJobId) -> WorkItem | None:
        row = self._session.answer(_READ, self._of(of_id=item_id)).fetchone()
        return None if row is None else item_of(row)

    def for_update(self, item_id: CaptureJobId) -> WorkItem | None:
        row = self._session.answer(_LOCKED, self._of(of_id=item_id)).fetchone()
        return None if row is None else item_of(row)

    def save(self, item: WorkItem) -> None:
        self._session.later(_SAVE, self._of(of_id=item.id, **changes_of(item)))
        if item.state is WorkState.CANCELLING:
            self._session.wake(Woken.CANCELS)

    def children(
        self, parent_id: CaptureJobId, *, after: CaptureJobId | None = None, limit: int = 500
    ) -> Sequence[WorkItem]:
        statement = (
            select(CAPTURE_WORK)
            .where(self._session.tenant_rows(CAPTURE_WORK), _WORK.parent_id == parent_id)
            .order_by(_WORK.id)
            .limit(limit)
        )
        if after is not None:
            statement = statement.where(_WORK.id > after)
        return [item_of(tuple(row)) for row in self._session.execute(statement)]

    def child_states(self, parent_id: CaptureJobId) -> Mapping[WorkState, int]:
        rows = self._session.answer(_CHILD_STATES, self._of(of_parent=parent_id))
        return {WorkState(state): count for state, count in rows}

    def live_children(self, parent_id: CaptureJobId, *, limit: int) -> Sequence[WorkItem]:
        rows = self._session.answer(_LIVE_CHILDREN, self._of(of_parent=parent_id, most=limit))
        return [item_of(row) for row in rows]

    def first_failed_child(self, parent_id: CaptureJobId) -> WorkItem | None:
        row = self._session.execute(
            select(CAPTURE_WORK)
            .where(
                self._session.tenant_rows(CAPTURE_WORK),
                _WORK.parent_id == parent_id,
                _WORK.state == WorkState.FAILED.value,
            )
            .order_by(_WORK.finished_at, _WORK.id)
            .limit(1)
        ).first()
        return None if row is None else item_of(tuple(row))

    def free_key(self, item: WorkItem) -> None:
        self._session.later(_FREE_KEY, self._of(of_id=item.id, of_key=item.claim_key))

    def mark_cancelled(self, item_id: CaptureJobId) -> None:
        row = {"tenant_id": self._session.tenant_id, "item_id": item_id}
        self._session.execute(insert(CAPTURE_CANCEL).values(row).on_conflict_do_nothing())

    def is_below_cancelled(self, item: WorkItem) -> bool:
        if not item.ancestors:
            return False
        rows = self._session.answer(_IS_CANCELLED, self._of(above=list(item.ancestors)))
        return rows.fetchone() is not None

    def renew(self, tokens: Collection[WorkToken]) -> Mapping[WorkToken, bool]:
        held = {(token.item_id, token.epoch): token for token in tokens}
        rows = self._session.answer(
            _RENEW,
            self._of(
                ids=[token.item_id for token in tokens], epochs=[token.epoch for token in tokens]
            ),
        )
        return {
            held[CaptureJobId(item_id), epoch]: state == WorkState.CANCELLING.value
            for item_id, epoch, state in rows
        }

    def expired(self, *, limit: int) -> Sequence[CaptureJobId]:
        rows = self._session.execute(
            select(_WORK.id)
            .where(
                self._session.tenant_rows(CAPTURE_WORK),
                _WORK.lease_until <= func.clock_timestamp() - RECLAIM_GRACE,
            )
            .order_by(_WORK.lease_until)
            .limit(limit)
        )
        return [CaptureJobId(row.id) for row in rows]

    def live_below_cancelled(self, *, limit: int) -> Sequence[CaptureJobId]:
        self._session.execute(_DROP_MARKS, self._of())
        rows = self._session.execute(_BELOW, self._of(most=limit))
        return [CaptureJobId(item_id) for item_id in {row.id for row in rows}]

    def matching(
        self, where: WorkFilter, *, before: tuple[datetime, CaptureJobId] | None, limit: int
    ) -> Sequence[WorkItem]:
        statement = (
            select(CAPTURE_WORK)
            .where(self._session.tenant_rows(CAPTURE_WORK))
            .order_by(_WORK.created_at.desc(), _WORK.id.desc())
            .limit(limit)
        )
        if before is not None:
            statement = statement.where(tuple_(_WORK.created_at, _WORK.id) < before)
        if where.connection_uid is not None:
            statement = statement.where(cast(_WORK.connection_uid, Text) == where.connection_uid)
        if where.states:
            statement = statement.where(_WORK.state.in_([one.value for one in where.states]))
        if where.kinds:
            statement = statement.where(_WORK.kind.in_([one.value for one in where.kinds]))
        if where.roots_only:
            statement = statement.where(_WORK.parent_id.is_(None))
        return [item_of(tuple(row)) for row in self._session.execute(statement)]

    def counters_below(self, item_id: CaptureJobId) -> Mapping[str, int]:
        rows = self._session.execute(_COUNTERS, self._of(of_id=item_id))
        return {row.name: int(row.total) for row in rows}

    def remove_ended(self, *, finished_before: datetime, limit: int) -> int:
        old = self._session.execute(_OLD, self._of(before=finished_before, most=limit))
        roots = [row.id for row in old]
        parts = self._of(roots=roots, most=REMOVED_AT_ONCE)
        while roots and self._session.execute(_REMOVE, parts).rowcount:
            pass
        return len(roots)

    def _of(self, **values: object) -> dict[str, object]:
        return {"of_tenant": self._session.tenant_id, **values}
