"""What workers may do with captures, beside the database (port CaptureControl).

The outcome of an item, the objects and statistics that follow from it, its children and its events
are one transaction: a worker that dies, or reports twice, changes nothing or everything once.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from datarecs_application.assignments import Decode
from datarecs_application.capturing import maintaining, queue
from datarecs_application.capturing.destinations import CapturedConnection, Destinations
from datarecs_application.capturing.planning import Applied, Planning, Siblings, required
from datarecs_application.capturing.recording import Plans, Recording
from datarecs_application.catalogue.account import CatalogueAccount
from datarecs_application.catalogue.indexes import Indexes
from datarecs_application.catalogue.snapshots import Snapshots
from datarecs_application.ports.capturing import Assignment, ClaimRequest, Claims, Renewed
from datarecs_application.ports.outside import BlobStores, Clock, Ids
from datarecs_application.ports.state import Transaction, UnitOfWork, WorkFinder
from datarecs_core.captures.items import (
    RetryClass,
    WorkItem,
    WorkKind,
    WorkState,
    WorkToken,
)
from datarecs_core.captures.outcomes import (
    ConnectorPlanned,
    Finalize,
    GroupCaptured,
    Outcome,
    Result,
    SnapshotCaptured,
    SnapshotPlanned,
    TablePlanned,
    ViewPlanned,
    WorkFailed,
    WorkReleased,
    WorkStopped,
)
from datarecs_core.captures.targets import file_target
from datarecs_core.crashing import CrashPoint, crash_point
from datarecs_core.documents import to_document
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.captures import (
    CaptureCode,
    CaptureFailedError,
    CaptureNotFoundError,
    LeaseLostError,
    OutcomeRefusedError,
)
from datarecs_core.hashing import JsonValue, canonical_json, sha256_hex
from datarecs_core.resources.resource import Kind
from datarecs_core.values import ResourceUid

MOST_KNOWN = 10_000
"""Snapshots whose details a source need not repeat."""
_RESULTS: Mapping[WorkKind, tuple[type[Result], ...]] = {
    WorkKind.PLAN_CONNECTOR: (ConnectorPlanned,),
    WorkKind.PLAN_TABLE: (TablePlanned,),
    WorkKind.PLAN_VIEW: (ViewPlanned,),
    WorkKind.PLAN_SNAPSHOT: (SnapshotPlanned, SnapshotCaptured),
    WorkKind.EXEC_FILE_GROUP: (GroupCaptured,),
    WorkKind.FINALIZE_SNAPSHOT_CAPTURE: (Finalize,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalControl:
    """Port CaptureControl, over the stores of the platform."""

    unit: UnitOfWork
    finder: WorkFinder
    blobs: BlobStores
    decode: Decode
    ids: Ids
    clock: Clock
    jitter: Callable[[], float]
    """From 0.5 to 1: how much of a pause between attempts is waited."""
    _plans: Plans = field(default_factory=Plans, init=False)

    def claim(self, request: ClaimRequest) -> Claims:
        return self.finder.claim_work(request)

    def renew(self, tokens: Collection[WorkToken]) -> Mapping[WorkToken, Renewed]:
        return maintaining.renew(self.unit, tokens)

    def begin(self, token: WorkToken) -> Assignment | None:
        """Start the item. One whose connection is gone ends here."""
        with self.unit.begin(token.tenant_id) as tx:
            item = queue.begin(tx, token)
            if item is None:
                return None
            try:
                frame = self._frame(tx, item)
            except CaptureFailedError as failed:
                self._fail(tx, token, _failure(failed))
                return None
            deadline = item.deadline_at or tx.now
            return Assignment(
                token=token,
                kind=item.kind,
                frame=frame,
                deadline_seconds=(deadline - tx.now).total_seconds(),
            )

    def put_sidecar(self, token: WorkToken, path: str, sha256: str, content: bytes) -> None:
        if sha256_hex(content) != sha256:
            raise OutcomeRefusedError(
                item_id=token.item_id, faults=[f"the index of {path} has another hash"]
            )
        with self.unit.begin(token.tenant_id) as tx:
            item = queue.held(tx, token)
            where = (required(item.task.table_id), required(item.task.snapshot_id))
            Indexes(self._account(tx)).put_content(*where, file_target(path), content)

    def end(self, token: WorkToken, outcome: Outcome) -> None:
        sha = _sha256(outcome)  # before the transaction: of a long list it takes seconds
        try:
            with self.unit.begin(token.tenant_id) as tx:
                self._end(tx, token, outcome, sha)
                crash_point(CrashPoint.CAPTURE_IN_TX)
        except (LeaseLostError, OutcomeRefusedError, CaptureNotFoundError):
            raise
        except DatarecsError as failed:
            if failed.code.entry.retryable:
                raise
            # Its effects are rolled back; the item ends, since another attempt changes nothing.
            with self.unit.begin(token.tenant_id) as tx:
                self._fail(tx, token, _failure(failed))

    def _end(self, tx: Transaction, token: WorkToken, outcome: Outcome, sha: str) -> None:
        match outcome:
            case WorkFailed():
                self._fail(tx, token, outcome)
            case WorkReleased():
                queue.end_released(tx, token, outcome_sha256=sha)
            case WorkStopped():
                queue.end_stopped(tx, token, outcome_sha256=sha)
            case _:
                item = queue.unreported(tx, token, outcome_sha256=sha)
                if item is not None:
                    self._succeed(tx, item, outcome, sha)

    def _succeed(self, tx: Transaction, item: WorkItem, outcome: Result, sha: str) -> None:
        token = WorkToken(tenant_id=item.tenant_id, item_id=item.id, epoch=item.epoch)
        if not isinstance(outcome, _RESULTS[item.kind]):
            fault = f"{type(outcome).__name__} is no result of {item.kind}"
            raise OutcomeRefusedError(item_id=item.id, faults=[fault])
        if item.state is WorkState.CANCELLING or tx.capture_work.is_below_cancelled(item):
            queue.end_stopped(tx, token, outcome_sha256=sha)
            return
        applied = self._applied(tx, item, outcome)
        queue.end_succeeded(
            tx,
            self.ids,
            token,
            outcome_sha256=sha,
            children=applied.children,
            counters=applied.counters,
            message=applied.message,
            events=applied.events,
        )

    def _fail(self, tx: Transaction, token: WorkToken, failure: WorkFailed) -> None:
        queue.end_failed(tx, token, failure, outcome_sha256=_sha256(failure), jitter=self.jitter())

    def _applied(self, tx: Transaction, item: WorkItem, outcome: Result) -> Applied:
        recording = self._recording(tx)
        match outcome:
            case GroupCaptured():
                return recording.group(item, outcome)
            case Finalize():
                return recording.finalize(item)
            case _:
                return self._planned(tx, item, outcome)

    def _planned(
        self,
        tx: Transaction,
        item: WorkItem,
        outcome: ConnectorPlanned | TablePlanned | ViewPlanned | SnapshotPlanned | SnapshotCaptured,
    ) -> Applied:
        planning = Planning(
            account=self._account(tx),
            destinations=self._destinations(tx, self._connection(tx, item)),
            siblings=Siblings(work=tx.capture_work),
            now=tx.now,
        )
        match outcome:
            case ConnectorPlanned():
                return planning.connector(item, outcome)
            case TablePlanned():
                return planning.table(item, outcome)
            case ViewPlanned():
                return planning.view(item, outcome)
            case SnapshotPlanned():
                return planning.snapshot(item, outcome)
            case SnapshotCaptured():
                return planning.captured_table(item, outcome)

    def _frame(self, tx: Transaction, item: WorkItem) -> Mapping[str, JsonValue]:
        """What the child needs: no secret, but the references of the connection."""
        task, request = item.task, item.task.request
        if item.kind is WorkKind.FINALIZE_SNAPSHOT_CAPTURE:
            return {}
        connection = self._connection(tx, item)
        frame: dict[str, JsonValue] = {
            "kind": item.kind.value,
            "name": connection.name,
            "connection": to_document(connection.declared),
        }
        if item.kind is WorkKind.PLAN_CONNECTOR:
            return frame | {"scope": to_document(request.scope)}
        frame["object"] = to_document(required(task.object))
        match item.kind:
            case WorkKind.PLAN_TABLE:
                frame["known"] = list(self._known(tx, item, connection))
            case WorkKind.PLAN_SNAPSHOT:
                frame |= {"native_id": task.native_id, "policy": to_document(request.policy)}
            case WorkKind.EXEC_FILE_GROUP:
                plan = self._recording(tx).known_plan(item)
                files = plan.group(required(task.group))
                snapshot = Snapshots(self._account(tx)).get(plan.table_id, plan.snapshot_id)
                frame |= {
                    "native_id": plan.native_id,
                    "policy": to_document(plan.policy),
                    "columns": [
                        to_document(column)
                        for column in (() if snapshot is None else snapshot.columns)
                    ],
                    "files": [to_document(file) for file in files],
                }
        return frame

    def _known(self, tx: Transaction, item: WorkItem, connection: CapturedConnection) -> list[str]:
        """Native ids of snapshots of the catalogue, the newest first.

        Also for a full rescan: a folder with the files of an earlier state is in a new one, and the
        source recognises that by these ids alone.
        """
        stored = self._destinations(tx, connection).existing_table(required(item.task.object))
        if stored is None:
            return []
        snapshots = Snapshots(self._account(tx)).newest_first(stored.record.id)
        return [one.native_id for one, _ in zip(snapshots, range(MOST_KNOWN), strict=False)]

    def _connection(self, tx: Transaction, item: WorkItem) -> CapturedConnection:
        uid = item.task.request.connection_uid
        resource = tx.resources.get_by_uid(uid)
        if resource is None or resource.kind is not Kind.CONNECTION:
            raise CaptureFailedError(
                CaptureCode.CONNECTOR_MISSING, f"the connection {uid} does not exist any more"
            )
        try:
            declared = self.decode.connection(resource.name, resource.spec)
        except DatarecsError as error:  # stored by another version
            raise CaptureFailedError(CaptureCode.CONNECTOR_MISSING, str(error)) from error
        return CapturedConnection(uid=uid, name=resource.name, declared=declared)

    def _destinations(self, tx: Transaction, connection: CapturedConnection) -> Destinations:
        return Destinations(
            account=self._account(tx),
            ids=self.ids,
            now=tx.now,
            connection=connection,
            is_declared=lambda uid: tx.resources.get_by_uid(ResourceUid(uid)) is not None,
        )

    def _recording(self, tx: Transaction) -> Recording:
        return Recording(account=self._account(tx), now=tx.now, plans=self._plans)

    def _account(self, tx: Transaction) -> CatalogueAccount:
        return CatalogueAccount(
            tenant=tx.tenant_id,
            pointers=tx.pointers,
            blobs=self.blobs.of(tx.tenant_id),
            clock=self.clock,
        )


def _sha256(outcome: Outcome) -> str:
    content = {"type": type(outcome).__name__, "outcome": to_document(outcome)}
    return sha256_hex(canonical_json(content))


def _failure(failed: DatarecsError) -> WorkFailed:
    return WorkFailed(code=failed.code.name, message=str(failed), retry=RetryClass.TERMINAL)
