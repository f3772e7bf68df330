"""Conformance suite of Schedules and of the claims of due schedules."""

from dataclasses import replace
from datetime import timedelta

import pytest

from datarecs_application.ports.schedules import DecidedTick, ScheduleState
from datarecs_core.resources.resource import Kind
from datarecs_core.scheduling.schedule import Tick, TickOutcome
from datarecs_core.values import ResourceUid, RunId, TenantId
from datarecs_testing.builders import A_TENANT, B_TENANT, NOON, a_resource, a_run, an_id
from datarecs_testing.conformance.stores import Stores

HOUR = timedelta(hours=1)


def declared(stores: Stores, tenant: TenantId = A_TENANT) -> ResourceUid:
    """A schedule that core-api has just stored."""
    schedule = a_resource(kind=Kind.SCHEDULE, tenant_id=tenant)
    with stores.api.unit.begin(tenant) as tx:
        tx.resources.add(schedule)
        tx.schedules.decide_soon(schedule.uid)
    return schedule.uid


def saved(stores: Stores, uid: ResourceUid, **changes: object) -> ScheduleState:
    with stores.resources.unit.begin(A_TENANT) as tx:
        state = tx.schedules.for_update(uid)[uid]
        state = replace(state, **changes)  # type: ignore[arg-type]  # fields of the state
        tx.schedules.save(state)
    return state


def a_tick(hours: int, outcome: TickOutcome = TickOutcome.FIRED) -> DecidedTick:
    return DecidedTick(
        tick=Tick(fire_time=NOON + hours * HOUR, outcome=outcome, missed=0), tzdata="2026b"
    )


class SchedulesConformance:
    def test_a_declared_schedule_is_due_at_once(self, stores: Stores) -> None:
        uid = declared(stores)
        assert stores.resources.finder.claim_schedules(10) == [(A_TENANT, uid)]
        with stores.api.unit.begin(A_TENANT) as tx:
            state = tx.schedules.state(uid)
        assert state is not None
        assert (state.times, state.last_fire_time, state.tzdata) == ("", None, "")

    def test_a_claimed_schedule_is_due_again_after_30_seconds(self, stores: Stores) -> None:
        uid = declared(stores)
        finder = stores.resources.finder
        assert finder.claim_schedules(10) == [(A_TENANT, uid)]
        assert finder.claim_schedules(10) == []
        stores.pass_time(timedelta(seconds=31))
        assert finder.claim_schedules(10) == [(A_TENANT, uid)]

    def test_schedules_of_all_tenants_are_claimed_oldest_first_up_to_the_limit(
        self, stores: Stores
    ) -> None:
        first, second = declared(stores), declared(stores, B_TENANT)
        finder = stores.resources.finder
        assert finder.claim_schedules(1) == [(A_TENANT, first)]
        assert finder.claim_schedules(5) == [(B_TENANT, second)]

    def test_a_backlog_of_one_tenant_does_not_delay_another(self, stores: Stores) -> None:
        backlog = {declared(stores) for _ in range(9)}
        uid = declared(stores, B_TENANT)
        finder = stores.resources.finder
        first, second = finder.claim_schedules(4), finder.claim_schedules(4)
        assert (B_TENANT, uid) in first
        assert len(first) == 3
        assert {tenant for tenant, _ in second} == {A_TENANT}
        assert len(second) == 4
        assert {one for _, one in (*first, *second)} <= {uid, *backlog}

    def test_a_saved_state_is_read_back(self, stores: Stores) -> None:
        uid = declared(stores)
        state = saved(
            stores,
            uid,
            due_at=NOON + HOUR,
            times="0 * * * * UTC",
            last_fire_time=NOON,
            is_suspended=True,
            waiting=NOON + HOUR,
            tzdata="2026b",
        )
        with stores.api.unit.begin(A_TENANT, read_only=True) as tx:
            assert tx.schedules.state(uid) == state
        with stores.api.unit.begin(B_TENANT, read_only=True) as tx:
            assert tx.schedules.state(uid) is None

    def test_a_schedule_without_a_next_time_is_not_due(self, stores: Stores) -> None:
        uid = declared(stores)
        saved(stores, uid, due_at=None)
        assert stores.resources.finder.claim_schedules(10) == []

    def test_an_edit_makes_it_due_and_leaves_the_rest(self, stores: Stores) -> None:
        uid = declared(stores)
        saved(stores, uid, due_at=None, times="0 * * * * UTC", last_fire_time=NOON)
        with stores.api.unit.begin(A_TENANT) as tx:
            tx.schedules.decide_soon(uid)
        assert stores.resources.finder.claim_schedules(10) == [(A_TENANT, uid)]
        with stores.api.unit.begin(A_TENANT) as tx:
            state = tx.schedules.state(uid)
        assert state is not None
        assert (state.times, state.last_fire_time) == ("0 * * * * UTC", NOON)

    @pytest.mark.case("R49")
    def test_other_zone_data_make_schedules_due(self, stores: Stores) -> None:
        finder, old, new, ended = stores.resources.finder, *(declared(stores) for _ in range(3))
        assert len(finder.claim_schedules(10)) == 3
        far = NOON.replace(year=2099)
        saved(stores, old, due_at=far, tzdata="2026a")
        saved(stores, new, due_at=far, tzdata="2026b")
        saved(stores, ended, due_at=None, tzdata="2026a")
        assert finder.decide_schedules_again("2026b") == 1
        assert finder.claim_schedules(10) == [(A_TENANT, old)]

    def test_ticks_are_listed_newest_first_in_pages(self, stores: Stores) -> None:
        uid = declared(stores)
        with stores.resources.unit.begin(A_TENANT) as tx:
            tx.schedules.record(uid, [a_tick(1), a_tick(2), a_tick(3)])
            tx.schedules.record(uid, [])
        with stores.api.unit.begin(A_TENANT, read_only=True) as tx:
            first = tx.schedules.ticks(uid, limit=2)
            rest = tx.schedules.ticks(uid, limit=2, before=first[-1].tick.fire_time)
        assert [each.tick for each in (*first, *rest)] == [a_tick(n).tick for n in (3, 2, 1)]
        assert all(each.at is not None and each.tzdata == "2026b" for each in first)

    def test_every_field_of_a_tick_is_stored(self, stores: Stores) -> None:
        uid, run_id = declared(stores), RunId(an_id())
        tick = Tick(
            fire_time=NOON,
            outcome=TickOutcome.MISSED_CATCHUP,
            first_fire_time=NOON - HOUR,
            missed=2,
            reason="late",
        )
        with stores.resources.unit.begin(A_TENANT) as tx:
            tx.schedules.record(uid, [DecidedTick(tick=tick, run_id=run_id, tzdata="2026b")])
        with stores.api.unit.begin(A_TENANT, read_only=True) as tx:
            (stored,) = tx.schedules.ticks(uid, limit=5)
        assert (stored.tick, stored.run_id) == (tick, run_id)

    @pytest.mark.case("R46")
    def test_the_first_decision_of_a_time_stands(self, stores: Stores) -> None:
        uid = declared(stores)
        for outcome in (TickOutcome.FIRED, TickOutcome.ERROR):
            with stores.resources.unit.begin(A_TENANT) as tx:
                tx.schedules.record(uid, [a_tick(1, outcome)])
        with stores.api.unit.begin(A_TENANT, read_only=True) as tx:
            (tick,) = tx.schedules.ticks(uid, limit=5)
        assert tick.tick.outcome is TickOutcome.FIRED

    def test_runs_that_have_not_ended_are_active(self, stores: Stores) -> None:
        uid = declared(stores)
        runs = [a_run(schedule_uid=uid, fire_time=NOON + n * HOUR) for n in range(2)]
        for run in (*runs, a_run(), a_run(schedule_uid=an_id(), fire_time=NOON)):
            with stores.resources.unit.begin(A_TENANT, feed=8) as tx:
                tx.runs.add(run)
        with stores.resources.unit.begin(A_TENANT) as tx:
            active = tx.schedules.active_runs(uid, ResourceUid(an_id()))
        assert active == {uid: [run.run_id for run in runs]}

    def test_state_and_ticks_go_with_their_schedule(self, stores: Stores) -> None:
        uid = declared(stores)
        with stores.resources.unit.begin(A_TENANT) as tx:
            tx.schedules.record(uid, [a_tick(1)])
        with stores.api.unit.begin(A_TENANT) as tx:
            resource = tx.resources.get_by_uid(uid)
            assert resource is not None
            assert tx.resources.remove(resource, expected_rv=resource.rv)
        with stores.api.unit.begin(A_TENANT) as tx:
            assert tx.schedules.state(uid) is None
            assert tx.schedules.ticks(uid, limit=5) == []
