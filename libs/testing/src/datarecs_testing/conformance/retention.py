"""Conformance suite of Retention and of the claim of due policies."""

from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

import pytest

from datarecs_application.ports.retention import Place, Selection, SweepState
from datarecs_application.ports.schedules import DecidedTick
from datarecs_application.ports.state import HistoryEntry
from datarecs_core.notifications.mail import Mail, MailState
from datarecs_core.resources.annotations import HOLD
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Kind, Resource
from datarecs_core.retention.policy import Target
from datarecs_core.runs.model import Run, RunResult, RunStatus
from datarecs_core.scheduling.schedule import Tick, TickOutcome
from datarecs_core.values import JobId, ResourceUid, RunId, TenantId
from datarecs_core.webhooks.delivery import DeliveryState
from datarecs_testing.builders import A_TENANT, B_TENANT, NOON, a_resource, a_run, an_id
from datarecs_testing.conformance.stores import Stores, triggered
from datarecs_testing.deliveries import a_delivery, a_mail

DAY = timedelta(days=1)
UNMATCHED = RunResult.UNMATCHED
BUDGET = 1000


def now_of(stores: Stores) -> datetime:
    with stores.api.unit.begin(A_TENANT, read_only=True) as tx:
        return tx.now


def a_job(stores: Stores, **changes: object) -> Resource:
    job = a_resource(kind=Kind.RECONCILIATION_JOB, name=f"job-{str(an_id())[-6:]}", **changes)
    with stores.api.unit.begin(job.tenant_id) as tx:
        tx.resources.add(job)
    return job


def ended(
    stores: Stores,
    job: Resource | JobId,
    days_ago: float,
    result: RunResult | None = UNMATCHED,
    tenant: TenantId = A_TENANT,
) -> Run:
    """A run that ended so many days ago, with all events sent; None: it errored."""
    job_id = JobId(job.uid) if isinstance(job, Resource) else job
    times = {"job_id": job_id, "created_at": now_of(stores) - days_ago * DAY, "tenant_id": tenant}
    run_id = RunId(an_id())
    status = RunStatus.ERRORED if result is None else RunStatus.COMPLETED
    with stores.api.unit.begin(tenant) as tx:
        tx.runs.add(a_run(run_id=run_id, **times))
    with stores.controller.unit.begin(tenant) as tx:
        before = tx.runs.for_update(run_id)
        assert before is not None
        after = a_run(run_id=run_id, status=status, **times)
        run = replace(after, result=result, row_version=before.row_version)
        tx.runs.save(run)
    return run


def selection(stores: Stores, target: Target = Target.RUNS, **changes: object) -> Selection:
    """What is older than ten days, of every job of the default namespace."""
    chosen = Selection(
        target=target,
        namespace=DEFAULT_NAMESPACE,
        job_labels={},
        deleted_jobs=False,
        before=now_of(stores) - 10 * DAY,
    )
    return replace(chosen, **changes)  # type: ignore[arg-type]  # fields of the selection


def due(stores: Stores, chosen: Selection, tenant: TenantId = A_TENANT) -> set[UUID]:
    with stores.resources.unit.begin(tenant) as tx:
        examined = tx.retention.examine(chosen, after=None, limit=BUDGET)
        assert examined.last is None
    return {place.id for place in examined.due}


def remove(stores: Stores, chosen: Selection) -> int:
    with stores.resources.unit.begin(A_TENANT) as tx:
        examined = tx.retention.examine(chosen, after=None, limit=BUDGET)
        return tx.retention.remove(chosen.target, examined.due)


def declared(stores: Stores, tenant: TenantId = A_TENANT) -> ResourceUid:
    policy = a_resource(kind=Kind.RETENTION_POLICY, tenant_id=tenant)
    with stores.api.unit.begin(tenant) as tx:
        tx.resources.add(policy)
        tx.retention.sweep_soon(policy.uid)
    return policy.uid


class RetentionConformance:
    """Subclass with a fixture `stores`."""

    def test_a_declared_policy_is_due_at_once_and_again_after_30_seconds(
        self, stores: Stores
    ) -> None:
        first, second = declared(stores), declared(stores, B_TENANT)
        finder = stores.resources.finder
        assert finder.claim_sweeps(1) == [(A_TENANT, first)]
        assert finder.claim_sweeps(5) == [(B_TENANT, second)]
        assert finder.claim_sweeps(5) == []
        stores.pass_time(timedelta(seconds=31))
        assert len(finder.claim_sweeps(5)) == 2

    def test_a_saved_state_is_read_back_and_goes_with_its_policy(self, stores: Stores) -> None:
        uid = declared(stores)
        state = SweepState(
            uid=uid,
            due_at=NOON + DAY,
            generation=3,
            target=Target.MAILS,
            place=Place(NOON, an_id()),
            counts={"runs": 7, "mails": 1},
        )
        with stores.resources.unit.begin(A_TENANT) as tx:
            tx.retention.save(state)
        with stores.resources.unit.begin(A_TENANT) as tx:
            assert tx.retention.for_update(uid) == state
        with stores.resources.unit.begin(B_TENANT) as tx:
            assert tx.retention.for_update(uid) is None
        with stores.api.unit.begin(A_TENANT) as tx:
            resource = tx.resources.get_by_uid(uid)
            assert resource is not None
            tx.resources.remove(resource, expected_rv=resource.rv)
        with stores.resources.unit.begin(A_TENANT) as tx:
            assert tx.retention.for_update(uid) is None

    def test_a_policy_that_is_not_due_is_not_claimed(self, stores: Stores) -> None:
        uid = declared(stores)
        with stores.resources.unit.begin(A_TENANT) as tx:
            tx.retention.save(SweepState(uid=uid))
        assert stores.resources.finder.claim_sweeps(5) == []

    def test_runs_that_ended_before_are_due(self, stores: Stores) -> None:
        job = a_job(stores)
        old, errored = ended(stores, job, 20), ended(stores, job, 11, result=None)
        ended(stores, job, 9)
        assert due(stores, selection(stores)) == {old.run_id, errored.run_id}

    @pytest.mark.case("R58")
    def test_runs_that_have_not_ended_and_the_last_match_are_never_due(
        self, stores: Stores
    ) -> None:
        job = a_job(stores)
        with stores.api.unit.begin(A_TENANT) as tx:
            tx.runs.add(a_run(job_id=job.uid, created_at=tx.now - 50 * DAY))
        earlier = ended(stores, job, 40, RunResult.MATCHED)
        ended(stores, job, 30, RunResult.MATCHED)
        later = ended(stores, job, 20)
        assert due(stores, selection(stores)) == {earlier.run_id, later.run_id}

    @pytest.mark.case("R58")
    def test_the_newest_runs_of_each_job_stay_whatever_their_age(self, stores: Stores) -> None:
        jobs = [a_job(stores), a_job(stores)]
        runs = [[ended(stores, job, days) for days in (50, 40, 30)] for job in jobs]
        chosen = selection(stores, keep_last=2)
        assert due(stores, chosen) == {first.run_id for first, *_ in runs}
        assert due(stores, replace(chosen, keep_last=3)) == set()

    @pytest.mark.case("R58")
    def test_a_hold_protects_everything_of_a_job(self, stores: Stores) -> None:
        held = a_job(stores, annotations={HOLD: "true"})
        released = a_job(stores, annotations={HOLD: "false"})
        ended(stores, held, 20)
        run = ended(stores, released, 20)
        assert due(stores, selection(stores)) == {run.run_id}
        assert due(stores, selection(stores, Target.DIFFERENCES)) == {run.run_id}

    def test_labels_and_namespace_select_jobs(self, stores: Stores) -> None:
        labels = {"team": "finance", "tier": "1"}
        mine = ended(stores, a_job(stores, labels=labels), 20)
        other = ended(stores, a_job(stores, labels={"team": "sales"}), 20)
        elsewhere = ended(stores, a_job(stores, namespace="lab", labels=labels), 20)
        chosen = selection(stores, job_labels={"team": "finance"})
        assert due(stores, chosen) == {mine.run_id}
        assert due(stores, replace(chosen, namespace="lab")) == {elsewhere.run_id}
        assert due(stores, selection(stores)) == {mine.run_id, other.run_id}

    def test_runs_of_deleted_jobs_are_due_on_request(self, stores: Stores) -> None:
        run = ended(stores, JobId(an_id()), 20)
        assert due(stores, selection(stores)) == set()
        assert due(stores, selection(stores, deleted_jobs=True)) == {run.run_id}

    def test_runs_with_an_unsent_event_are_not_due(self, stores: Stores) -> None:
        job = a_job(stores)
        run = ended(stores, job, 20)
        with stores.api.unit.begin(A_TENANT, feed=8) as tx:
            tx.runs.for_update(run.run_id)
            tx.outbox.append(triggered(run))
        assert due(stores, selection(stores)) == set()
        stores.relay.mark_sent([row.event_id for row in stores.unsent()])
        assert due(stores, selection(stores)) == {run.run_id}

    @pytest.mark.parametrize("state", [DeliveryState.PENDING, DeliveryState.SUCCEEDED])
    def test_runs_with_an_open_delivery_are_not_due(
        self, stores: Stores, state: DeliveryState
    ) -> None:
        run = ended(stores, a_job(stores), 20)
        with stores.webhook.unit.begin(A_TENANT) as tx:
            delivery = a_delivery(run_id=run.run_id, received_on=tx.now.date(), state=state)
            tx.deliveries.add([delivery])
        expected = {run.run_id} if state.is_terminal else set()
        assert due(stores, selection(stores)) == expected

    def test_runs_with_an_open_mail_are_not_due(self, stores: Stores) -> None:
        job = a_job(stores)
        waiting, sent = ended(stores, job, 20), ended(stores, job, 20)
        stored_mail(stores, run_id=waiting.run_id)
        stored_mail(stores, run_id=sent.run_id, state=MailState.SENT)
        assert due(stores, selection(stores)) == {sent.run_id}

    def test_other_tenants_rows_are_neither_examined_nor_removed(self, stores: Stores) -> None:
        job = a_job(stores, tenant_id=B_TENANT)
        run = ended(stores, job, 20, tenant=B_TENANT)
        assert due(stores, selection(stores, deleted_jobs=True)) == set()
        with stores.resources.unit.begin(A_TENANT) as tx:
            assert tx.retention.remove(Target.RUNS, [Place(run.created_at, run.run_id)]) == 0
        assert due(stores, selection(stores), tenant=B_TENANT) == {run.run_id}

    def test_objects_are_examined_in_pages_oldest_first(self, stores: Stores) -> None:
        job = a_job(stores, annotations={HOLD: "true"}), a_job(stores)
        runs = [ended(stores, job[number % 2], 50 - number) for number in range(5)]
        places = [Place(run.created_at, run.run_id) for run in runs]
        chosen, places_due, after = selection(stores), [], None
        with stores.resources.unit.begin(A_TENANT) as tx:
            for last in (places[1], places[3], None):
                examined = tx.retention.examine(chosen, after=after, limit=2)
                places_due += list(examined.due)
                assert examined.last == last
                after = examined.last
        assert places_due == [places[1], places[3]]

    def test_a_removed_run_is_gone_with_its_history_and_timers(self, stores: Stores) -> None:
        run = ended(stores, a_job(stores), 20)
        with stores.api.unit.begin(A_TENANT, feed=8) as tx:
            tx.runs.for_update(run.run_id)
            tx.timers.put(run.run_id, "late", tx.now)
            tx.mail_choices.revoke_report_links(run.run_id)
            tx.outbox.append(triggered(run))
        stores.relay.mark_sent([row.event_id for row in stores.unsent()])
        assert remove(stores, selection(stores)) == 1
        assert remove(stores, selection(stores)) == 0
        assert stores.queries.run(A_TENANT, run.run_id) is None
        assert events_of(stores, run.run_id) == []
        with stores.api.unit.begin(A_TENANT, read_only=True) as tx:
            assert tx.mail_choices.report_links_revoked_at(run.run_id) is None
        stores.pass_time(DAY)
        assert stores.controller.finder.due_timers(10) == []

    def test_a_run_that_has_not_ended_is_never_removed(self, stores: Stores) -> None:
        run = stores.queued()
        with stores.resources.unit.begin(A_TENANT) as tx:
            assert tx.retention.remove(Target.RUNS, [Place(run.created_at, run.run_id)]) == 0
        assert stores.stored(run.run_id).status is RunStatus.QUEUED

    def test_runs_without_differences_are_marked_once(self, stores: Stores) -> None:
        job = a_job(stores)
        run = ended(stores, job, 20)
        ended(stores, job, 20, result=None)
        chosen = selection(stores, Target.DIFFERENCES)
        assert due(stores, chosen) == {run.run_id}
        assert remove(stores, chosen) == 1
        assert stores.stored(run.run_id).differences_deleted_at is not None
        assert remove(stores, chosen) == 0
        assert due(stores, selection(stores)) >= {run.run_id}

    def test_mails_that_are_terminal_are_due(self, stores: Stores) -> None:
        job = a_job(stores, labels={"team": "finance"})
        old = stored_mail(stores, days_ago=20, job_id=job.uid, state=MailState.SENT)
        digest = stored_mail(stores, days_ago=20, job_id=None, run_id=None, state=MailState.FAILED)
        orphan = stored_mail(stores, days_ago=20, state=MailState.SKIPPED)
        stored_mail(stores, days_ago=20, job_id=job.uid)
        stored_mail(stores, days_ago=9, job_id=job.uid, state=MailState.SENT)
        chosen = selection(stores, Target.MAILS)
        labelled = replace(chosen, job_labels={"team": "finance"})
        assert due(stores, labelled) == {old.delivery_id}
        assert due(stores, chosen) == {old.delivery_id, digest.delivery_id}
        everything = replace(chosen, deleted_jobs=True)
        assert due(stores, everything) == {one.delivery_id for one in (old, digest, orphan)}
        assert remove(stores, everything) == 3
        assert due(stores, everything) == set()

    def test_a_mail_that_was_opened_again_is_not_removed(self, stores: Stores) -> None:
        mail = stored_mail(stores, days_ago=20)
        with stores.resources.unit.begin(A_TENANT) as tx:
            place = Place(mail.created_at, mail.delivery_id)
            assert tx.retention.remove(Target.MAILS, [place]) == 0
        with stores.mail.unit.begin(A_TENANT) as tx:
            assert tx.mails.get(mail.delivery_id) == mail

    def test_ticks_of_schedules_are_due_by_the_time_of_their_decision(self, stores: Stores) -> None:
        job = a_job(stores, labels={"team": "finance"})
        held = a_job(stores, annotations={HOLD: "true"})
        mine, protected = scheduled(stores, job.name), scheduled(stores, held.name)
        nobodys = scheduled(stores, "nothere")
        chosen = selection(stores, Target.TICKS)
        assert due(stores, chosen) == set()
        tomorrow = replace(chosen, before=now_of(stores) + DAY)
        assert due(stores, tomorrow) == {mine, nobodys}
        assert due(stores, replace(tomorrow, job_labels={"team": "finance"})) == {mine}
        assert due(stores, replace(tomorrow, namespace="lab")) == set()
        assert remove(stores, tomorrow) == 4
        with stores.api.unit.begin(A_TENANT, read_only=True) as tx:
            assert tx.schedules.ticks(mine, limit=5) == []
            assert len(tx.schedules.ticks(protected, limit=5)) == 2

    def test_ticks_are_examined_in_pages(self, stores: Stores) -> None:
        uid = scheduled(stores, a_job(stores).name)
        chosen = selection(stores, Target.TICKS, before=now_of(stores) + DAY)
        with stores.resources.unit.begin(A_TENANT) as tx:
            first = tx.retention.examine(chosen, after=None, limit=1)
            second = tx.retention.examine(chosen, after=first.last, limit=1)
            assert tx.retention.examine(chosen, after=second.last, limit=1).due == []
        assert [*first.due, *second.due] == [Place(NOON, uid), Place(NOON + DAY, uid)]

    def test_nothing_is_removed_on_an_empty_request(self, stores: Stores) -> None:
        with stores.resources.unit.begin(A_TENANT) as tx:
            assert [tx.retention.remove(target, []) for target in Target] == [0, 0, 0, 0]


def stored_mail(stores: Stores, *, days_ago: float = 0, **changes: object) -> Mail:
    state = changes.get("state", MailState.PENDING)
    due: dict[str, object] = {} if state is MailState.PENDING else {"due_at": None}
    with stores.mail.unit.begin(A_TENANT) as tx:
        created = {"created_at": tx.now - days_ago * DAY, "dedupe_key": str(an_id())}
        mail = a_mail(**{**created, **due, **changes})
        tx.mails.add(mail)
    return mail


def scheduled(stores: Stores, job: str) -> ResourceUid:
    """A schedule with two decided times."""
    name = f"schedule-{str(an_id())[-6:]}"
    schedule = a_resource(kind=Kind.SCHEDULE, name=name, spec={"job": job})
    with stores.api.unit.begin(A_TENANT) as tx:
        tx.resources.add(schedule)
    with stores.resources.unit.begin(A_TENANT) as tx:
        ticks = [Tick(fire_time=NOON + n * DAY, outcome=TickOutcome.FIRED) for n in range(2)]
        tx.schedules.record(schedule.uid, [DecidedTick(tick=tick) for tick in ticks])
    return schedule.uid


def events_of(stores: Stores, run_id: RunId) -> list[HistoryEntry]:
    return stores.queries.run_events(A_TENANT, run_id, after=0, limit=10)
