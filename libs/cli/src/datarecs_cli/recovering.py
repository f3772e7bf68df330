"""`datarecs admin recover`: make a database safe to use that was restored to an earlier time.

The topics and the blobs are of a later time than the database. Everything is read first; then
leases are fenced, the last events are sent again and groups go back, in this order; each step may
be repeated.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby, islice
from typing import TYPE_CHECKING

from datarecs_cli.commands import admin
from datarecs_cli.invocation import UsageFault
from datarecs_cli.lost_future import LostEvent, advice
from datarecs_cli.stack.layout import Layout
from datarecs_core.catalog.layout import account_prefix, run_document
from datarecs_core.values import EventId, RunId, TenantId, instant_text

if TYPE_CHECKING:
    from datarecs_application.ports.messaging import LogRecord, Unreadable
    from datarecs_application.ports.outside import BlobStores
    from datarecs_events.codec import Received
    from datarecs_kafka.rewinding import Rewound
    from datarecs_postgres.recovery import Recovered, RestoredDatabase, RestoredState

BACK = timedelta(minutes=10)
"""Groups go back so far before the restored time."""
PURPOSE = "recovering needs every service to be stopped"
_BATCH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingResult:
    """A run whose row says that it has a result, and the blob store has none."""

    tenant_id: TenantId
    run_id: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """Everything that the command did, or would do, and what is left to people."""

    restored_at: datetime
    dry_run: bool
    newest: datetime | None
    recovered: "Recovered"
    groups: "tuple[Rewound, ...]"
    results: int
    """Runs with a result."""
    missing: tuple[MissingResult, ...]
    lost: tuple[LostEvent, ...]
    """Effects after the restored time that the database does not know, oldest first."""
    lost_progress: int
    """Events of progress among them, which are only counted."""
    unreadable: int
    """Records that are no events of this release."""
    advice: tuple[str, ...]


def moment_of(text: str) -> datetime:
    """The instant of an option; UsageFault names what is wrong with it."""
    example = "write it as 2026-01-31T12:00:00Z"
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageFault(f"--restored-at {text}: not a time; {example}") from None
    if moment.utcoffset() is None:
        raise UsageFault(f"--restored-at {text}: the time zone is missing; {example}")
    return moment.astimezone(UTC)


def recover(layout: Layout, restored_at: datetime, *, dry_run: bool) -> Recovery:
    """Recover the platform of the settings, or of the data directory.

    Raises:
        UsageFault: the database does not end at this time.
        ServicesRunningError: a service is connected to the database or the broker.
        StoreUnavailableError, LogUnavailableError, BlobStoreUnavailableError: nothing was changed,
            or the command must be repeated.
    """
    from datarecs_kafka.rewinding import records_since, refuse_members, rewind
    from datarecs_kafka.topics import GROUPS
    from datarecs_postgres.recovery import RestoredDatabase

    database = RestoredDatabase(admin.migration_url(layout))
    access = admin.broker_login(layout)[0].access()
    database.refuse_services(purpose=PURPOSE)
    refuse_members(access, purpose=PURPOSE)
    state = database.state(GROUPS)
    refuse_wrong_time(state, restored_at)
    runs = database.completed_runs()
    missing = tuple(missing_results(admin.blob_stores(layout), runs))
    until = min(restored_at, state.newest or restored_at)
    reading = _Reading(database)
    reading.read(records_since(access, until - BACK))
    recovered = database.recover(until=until, ended=reading.ended, dry_run=dry_run)
    since = {group: min(until, state.handled.get(group, until)) - BACK for group in GROUPS}
    return Recovery(
        restored_at=restored_at,
        dry_run=dry_run,
        newest=state.newest,
        recovered=recovered,
        groups=rewind(access, since, dry_run=dry_run),
        results=len(runs),
        missing=missing,
        lost=tuple(sorted(reading.lost, key=lambda one: (one.time, one.event_id))),
        lost_progress=reading.progress,
        unreadable=reading.unreadable,
        advice=tuple(advice(reading.lost, known=database.known_runs(reading.runs))),
    )


def refuse_wrong_time(state: "RestoredState", restored_at: datetime) -> None:
    """Raise UsageFault for a time to which this database was not restored."""
    shown = instant_text(restored_at)
    if restored_at > state.now:
        now = instant_text(state.now)
        raise UsageFault(f"--restored-at {shown} is in the future; the database's time is {now}")
    if state.newest is not None and state.newest > restored_at:
        newest = instant_text(state.newest)
        raise UsageFault(
            f"--restored-at {shown}: the database has an event of {newest}, so it was not restored"
            " to that time, or services ran since; name the time that the restore used"
        )


def missing_results(
    stores: "BlobStores", runs: Sequence[tuple[TenantId, RunId]]
) -> Iterator[MissingResult]:
    """The runs whose result document is not in the blob store; lists each account once.

    Args:
        stores: the artefacts of runs.
        runs: by tenant.
    """
    for tenant, of_tenant in groupby(runs, key=lambda run: run[0]):
        keys = {info.key for info in stores.of(tenant).list(f"{account_prefix(tenant)}runs/")}
        for _, run_id in of_tenant:
            if run_document(tenant, run_id) not in keys:
                yield MissingResult(tenant_id=tenant, run_id=run_id)


class _Reading:
    """Collects what the topics have and the outbox of the restored database does not."""

    def __init__(self, database: "RestoredDatabase") -> None:
        self._database = database
        self._seen: set[EventId] = set()
        self.lost: list[LostEvent] = []
        self.runs: set[RunId] = set()
        """Runs of lost events."""
        self.ended: set[RunId] = set()
        """Those with a lost end of their execution."""
        self.progress = 0
        self.unreadable = 0

    def read(self, records: "Iterator[LogRecord | Unreadable]") -> None:
        while batch := list(islice(records, _BATCH)):
            received = list(self._received(batch))
            known = self._database.known_events(
                [(one.envelope.tenant_id, one.envelope.id) for one in received]
            )
            for one in received:
                if one.envelope.id not in known:
                    self._add(one)

    def _received(self, batch: "Iterable[LogRecord | Unreadable]") -> "Iterator[Received]":
        from datarecs_application.ports.messaging import Unreadable
        from datarecs_events.codec import Received, decode

        for record in batch:
            message = None
            if not isinstance(record, Unreadable):
                message = decode(record.topic, record.key, record.value, record.headers)
            if not isinstance(message, Received):
                self.unreadable += 1
            elif message.envelope.id not in self._seen:  # the relay may repeat a record
                self._seen.add(message.envelope.id)
                yield message

    def _add(self, received: "Received") -> None:
        from datarecs_core.runs.events import RunCompleted, RunErrored, RunEvent
        from datarecs_events.catalogue import BY_TYPE, EventKind

        event, envelope = received.event, received.envelope
        run_id = RunId(event.run_id) if isinstance(event, RunEvent) else None
        if run_id is not None:
            self.runs.add(run_id)
        if isinstance(event, RunCompleted | RunErrored):
            self.ended.add(event.run_id)
        if BY_TYPE[envelope.type].kind is EventKind.PROGRESS:
            self.progress += 1
            return
        self.lost.append(
            LostEvent(
                time=instant_text(envelope.time) if envelope.time else "",
                tenant_id=envelope.tenant_id,
                type=envelope.type,
                subject=envelope.subject or "",
                event_id=envelope.id,
                run_id=run_id,
            )
        )


def document_of(recovery: Recovery) -> Mapping[str, object]:
    """The members of the JSON output."""
    return {
        "restored_at": instant_text(recovery.restored_at),
        "dry_run": recovery.dry_run,
        "newest_event_at": instant_text(recovery.newest) if recovery.newest else None,
        "leases_fenced": recovery.recovered.leases,
        "events_sent_again": recovery.recovered.events,
        "groups": [
            {
                "group": one.group,
                "since": instant_text(one.since),
                "partitions": one.partitions,
                "records": one.records,
            }
            for one in recovery.groups
        ],
        "results": recovery.results,
        "results_missing": [
            {"tenant_id": str(one.tenant_id), "run_id": str(one.run_id)} for one in recovery.missing
        ],
        "lost": [one.as_row() for one in recovery.lost],
        "lost_progress_events": recovery.lost_progress,
        "unreadable_records": recovery.unreadable,
        "advice": list(recovery.advice),
    }


def lines_of(recovery: Recovery) -> Iterator[str]:
    """The report for people, without the table of lost events."""
    newest = instant_text(recovery.newest) if recovery.newest else "none"
    yield f"restored   {instant_text(recovery.restored_at)}, newest event {newest}"
    yield f"leases     {recovery.recovered.leases} fenced"
    yield f"events     {recovery.recovered.events} are sent again, with the same ids"
    for one in recovery.groups:
        yield (
            f"group      {one.group} reads again from {instant_text(one.since)}"
            f" (records: {one.records})"
        )
    yield from _result_lines(recovery)
    yield (
        f"lost       {len(recovery.lost)} events that the database does not know,"
        f" and {recovery.lost_progress} of progress"
    )
    if recovery.unreadable:
        yield f"unreadable {recovery.unreadable} records that are no events of this release"


MOST_SHOWN = 20


def _result_lines(recovery: Recovery) -> Iterator[str]:
    missing: Collection[MissingResult] = recovery.missing
    if not missing:
        yield f"results    {recovery.results}, all in the blob store"
        return
    yield (
        f"results    {len(missing)} of {recovery.results} are MISSING in the blob store: check"
        " DATARECS_BLOB__URL, or restore these files from its backup or its older versions"
    )
    for one in islice(missing, MOST_SHOWN):
        yield f"           {run_document(one.tenant_id, one.run_id)}"
    if len(missing) > MOST_SHOWN:
        yield f"           and {len(missing) - MOST_SHOWN} more (-o json lists all)"
