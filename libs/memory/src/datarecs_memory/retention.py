"""Twin of `retention_state`, of what sweeps select and remove, and the claim of due policies."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from datarecs_application.ports.retention import Examined, Place, Selection, SweepState
from datarecs_core.notifications.mail import Mail, MailState
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.retention.policy import Target, is_held
from datarecs_core.runs.model import Run, RunResult
from datarecs_core.values import EventId, ResourceUid, RunId, TenantId
from datarecs_core.webhooks.delivery import DeliveryState
from datarecs_memory.scope import Scope
from datarecs_memory.store import MemoryStore

HOLD = timedelta(seconds=30)
"""Duration of a claim."""
_OPEN_MAILS = frozenset({MailState.PENDING, MailState.SENDING})
_OPEN_DELIVERIES = frozenset({DeliveryState.PENDING, DeliveryState.LEASED})


class MemoryRetention:
    """Port Retention."""

    def __init__(self, scope: Scope) -> None:
        self._scope, self._rows = scope, scope.state

    def sweep_soon(self, uid: ResourceUid) -> None:
        state = self._rows.sweeps.get(uid) or SweepState(uid=uid)
        self._rows.sweeps[uid] = replace(state, due_at=self._scope.now)
        self._scope.wake()

    def for_update(self, uid: ResourceUid) -> SweepState | None:
        return self._rows.sweeps.get(uid)

    def save(self, state: SweepState) -> None:
        self._rows.sweeps[state.uid] = state

    def examine(self, selection: Selection, *, after: Place | None, limit: int) -> Examined:
        objects = {
            Target.RUNS: self._runs,
            Target.DIFFERENCES: self._runs,
            Target.MAILS: self._mails,
            Target.TICKS: self._ticks,
        }[selection.target]
        order = _by_id if selection.target is Target.TICKS else _by_time
        rows = sorted(objects(selection), key=lambda row: order(row[0]))
        later = [row for row in rows if after is None or order(row[0]) > order(after)][:limit]
        last = later[-1][0] if len(later) == limit else None
        return Examined(due=[place for place, is_due in later if is_due], last=last)

    def remove(self, target: Target, places: Sequence[Place]) -> int:
        remove = {
            Target.RUNS: self._remove_run,
            Target.DIFFERENCES: self._mark_run,
            Target.MAILS: self._remove_mail,
            Target.TICKS: self._remove_tick,
        }[target]
        return sum(remove(place) for place in places)

    def _runs(self, selection: Selection) -> Iterator[tuple[Place, bool]]:
        for run in self._rows.runs.values():
            if run.created_at < selection.before:
                place = Place(run.created_at, run.run_id)
                yield place, self._is_run_due(run, selection)

    def _is_run_due(self, run: Run, selection: Selection) -> bool:
        newer = [one for one in self._rows.runs.values() if _is_newer(one, run)]
        has_differences = run.result is not None and run.differences_deleted_at is None
        return (
            run.closed_at is not None
            and run.closed_at < selection.before
            and (selection.target is Target.RUNS or has_differences)
            and self._is_selected(self._job(ResourceUid(run.job_id)), selection)
            and len(newer) >= selection.keep_last
            and not _is_last_match(run, newer)
            and not self._has_open(run.run_id)
        )

    def _has_open(self, run_id: RunId) -> bool:
        delivery = self._rows.delivery
        return (
            any(one.run_id == run_id and _is_open(one) for one in delivery.mails.values())
            or any(
                one.run_id == run_id and one.state in _OPEN_DELIVERIES
                for one in delivery.deliveries.values()
            )
            or any(
                one.sent_at is None and one.row.partition_key == str(run_id)
                for one in self._rows.outbox.values()
            )
        )

    def _mails(self, selection: Selection) -> Iterator[tuple[Place, bool]]:
        for mail in self._rows.delivery.mails.values():
            if mail.created_at < selection.before:
                place = Place(mail.created_at, mail.delivery_id)
                yield place, self._is_mail_due(mail, selection)

    def _is_mail_due(self, mail: Mail, selection: Selection) -> bool:
        if _is_open(mail):
            return False
        if mail.job_id is None:
            return not selection.job_labels
        return self._is_selected(self._job(ResourceUid(mail.job_id)), selection)

    def _ticks(self, selection: Selection) -> Iterator[tuple[Place, bool]]:
        for (uid, fire_time), tick in self._rows.ticks.items():
            if tick.at is not None and tick.at < selection.before:
                yield Place(fire_time, uid), self._is_tick_due(uid, selection)

    def _is_tick_due(self, uid: ResourceUid, selection: Selection) -> bool:
        schedule = self._rows.resources[uid]
        if schedule.namespace != selection.namespace:
            return False
        wanted = (Kind.RECONCILIATION_JOB, schedule.namespace, schedule.spec.get("job"))
        jobs = self._rows.resources.values()
        job = next((one for one in jobs if (one.kind, one.namespace, one.name) == wanted), None)
        return not selection.job_labels if job is None else self._is_selected(job, selection)

    def _job(self, uid: ResourceUid) -> Resource | None:
        job = self._rows.resources.get(uid)
        return job if job is not None and job.kind is Kind.RECONCILIATION_JOB else None

    def _is_selected(self, job: Resource | None, selection: Selection) -> bool:
        if job is None:
            return selection.deleted_jobs
        has_labels = selection.job_labels.items() <= job.labels.items()
        return job.namespace == selection.namespace and has_labels and not is_held(job)

    def _remove_run(self, place: Place) -> int:
        run = self._rows.runs.get(RunId(place.id))
        if run is None or run.closed_at is None:
            return 0
        del self._rows.runs[run.run_id]
        self._rows.history.pop(run.run_id, None)
        self._rows.leases.pop(run.run_id, None)
        self._rows.delivery.revoked_links.pop(run.run_id, None)
        for timer in [key for key in self._rows.timers if key[0] == run.run_id]:
            del self._rows.timers[timer]
        return 1

    def _mark_run(self, place: Place) -> int:
        run = self._rows.runs.get(RunId(place.id))
        if run is None or run.differences_deleted_at is not None:
            return 0
        self._rows.runs[run.run_id] = replace(run, differences_deleted_at=self._scope.now)
        return 1

    def _remove_mail(self, place: Place) -> int:
        delivery = self._rows.delivery
        mail = delivery.mails.get(place.id)
        if mail is None or _is_open(mail):
            return 0
        del delivery.mails[place.id]
        delivery.mimes.pop(place.id, None)
        for attempt in [key for key in delivery.mail_attempts if key[0] == place.id]:
            del delivery.mail_attempts[attempt]
        return 1

    def _remove_tick(self, place: Place) -> int:
        return 0 if self._rows.ticks.pop((ResourceUid(place.id), place.at), None) is None else 1


def _by_time(place: Place) -> tuple[datetime, EventId]:
    return place.at, EventId(place.id)


def _by_id(place: Place) -> tuple[EventId, datetime]:
    return EventId(place.id), place.at


def _is_newer(one: Run, run: Run) -> bool:
    later = (one.created_at, one.run_id) > (run.created_at, run.run_id)
    return one.job_id == run.job_id and later


def _is_last_match(run: Run, newer: Sequence[Run]) -> bool:
    matched = RunResult.MATCHED
    return run.result is matched and not any(one.result is matched for one in newer)


def _is_open(mail: Mail) -> bool:
    return mail.state in _OPEN_MAILS


def claim_sweeps(store: MemoryStore, limit: int) -> list[tuple[TenantId, ResourceUid]]:
    """Of WorkFinder."""
    now = store.clock.now()
    with store.writing_all() as tenants:
        due = sorted(
            (state.due_at, tenant, uid)
            for tenant, rows in tenants.items()
            for uid, state in rows.sweeps.items()
            if state.due_at is not None and state.due_at <= now
        )[:limit]
        for _, tenant, uid in due:
            rows = tenants[tenant].sweeps
            rows[uid] = replace(rows[uid], due_at=now + HOLD)
    return [(tenant, uid) for _, tenant, uid in due]
