"""Conformance suite of Runs: complete rows, only changes written, facts without gaps."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from datarecs_application.errors import RunExistsError
from datarecs_application.ports.state import HistoryEntry, RunFilter
from datarecs_core.errors.base import RunErrorCode
from datarecs_core.runs.model import (
    Disposition,
    Run,
    RunError,
    RunResult,
    RunStatus,
    RunSummary,
    Wish,
)
from datarecs_core.values import EventId, JobId
from datarecs_testing.builders import A_TENANT, B_TENANT, NOON, a_run, an_id
from datarecs_testing.conformance.stores import Stores, carry_out, require_run

HOUR = timedelta(hours=1)
SUMMARY = RunSummary(
    stages_total=2,
    stages_matched=1,
    rows_compared=402,
    rows_matched=388,
    rows_unmatched=14,
    duration_ms=48_210,
    report_path="runs/1/report.html",
)


def a_fact(**changes: object) -> HistoryEntry:
    entry = HistoryEntry(
        sequence=0,
        event_id=EventId(an_id()),
        type="attempt_lost",
        source="/datarecs/core-api",
        time=NOON,
        data={"limit": Decimal("0.010"), "nested": [1, {"empty": None}], "text": "größe"},
        disposition=Disposition.SYNTHESISED,
    )
    return replace(entry, **changes)  # type: ignore[arg-type]  # any field, named by the test


class RunsConformance:
    def test_a_new_run_comes_back_whole(self, stores: Stores) -> None:
        run = a_run(
            spec={"tolerance": Decimal("0.0500"), "sources": [{"name": "größe"}]},
            parameters={"month": "2026-01"},
            idempotency_key="k-1",
            priority=2,
            deadline_seconds=60,
            traceparent="00-8c1f0000000000000000000000000001-0000000000000001-01",
            schedule_uid=an_id(),
            fire_time=NOON,
        )
        with stores.api.unit.begin(A_TENANT) as tx:
            tx.runs.add(run)
        assert stores.stored(run.run_id) == run

    def test_every_column_of_an_ended_run_comes_back(self, stores: Stores) -> None:
        run = stores.triggered()
        raw = RunError(code=RunErrorCode.QUERY_FAILED, message="no column", detail_code="X")
        with stores.controller.unit.begin(A_TENANT) as tx:
            before = require_run(tx.runs.for_update(run.run_id))
            after = replace(
                before,
                status=RunStatus.COMPLETED,
                result=RunResult.UNMATCHED,
                raw_error=raw,
                terminal_fact_id=EventId(an_id()),
                cancel_stale=True,
                wish=Wish.STOP,
                submit_intent_at=tx.now,
                submit_attempts=2,
                next_reconcile_at=None,
                stop_sent_at=tx.now,
                attempt=3,
                deadline_at=tx.now + timedelta(hours=1),
                last_progress_at=tx.now,
                queued_at=tx.now,
                started_at=tx.now,
                ended_at=tx.now,
                closed_at=tx.now,
                summary=SUMMARY,
                pins={"ledger": {"offset": Decimal("1.50")}},
                report_path="runs/1/report.html",
            )
            tx.runs.save(after)
        assert stores.stored(run.run_id) == replace(after, row_version=before.row_version + 1)

    def test_the_error_of_an_errored_run_is_stored(self, stores: Stores) -> None:
        run = stores.triggered()
        error = RunError(code=RunErrorCode.CRASHED, message="gone", detail_code="LEASE_EXPIRED")
        with stores.controller.unit.begin(A_TENANT) as tx:
            before = require_run(tx.runs.for_update(run.run_id))
            tx.runs.save(replace(before, status=RunStatus.ERRORED, error=error))
        assert stores.stored(run.run_id).error == error

    def test_the_same_run_is_added_once(self, stores: Stores) -> None:
        run = stores.triggered()
        with stores.api.unit.begin(A_TENANT) as tx:
            with pytest.raises(RunExistsError) as failure:
                tx.runs.add(run)
            assert tx.runs.get(run.run_id) is not None
        assert failure.value.run_id == run.run_id

    def test_a_run_id_is_taken_for_every_tenant(self, stores: Stores) -> None:
        run = stores.triggered()
        same = replace(run, tenant_id=B_TENANT)
        with pytest.raises(RunExistsError):
            carry_out(stores.api.unit, B_TENANT, lambda tx: tx.runs.add(same))

    def test_a_slot_of_a_schedule_fires_once(self, stores: Stores) -> None:
        slot = {"schedule_uid": an_id(), "fire_time": NOON}
        stores.triggered(**slot)
        with pytest.raises(RunExistsError):
            stores.triggered(**slot)

    def test_a_run_is_added_only_to_its_tenant(self, stores: Stores) -> None:
        run = a_run(tenant_id=A_TENANT)
        with pytest.raises(ValueError, match="own tenant"):
            carry_out(stores.api.unit, B_TENANT, lambda tx: tx.runs.add(run))

    def test_a_save_raises_the_version_by_one(self, stores: Stores) -> None:
        run = stores.triggered()
        with stores.api.unit.begin(A_TENANT) as tx:
            before = require_run(tx.runs.for_update(run.run_id))
            tx.runs.save(replace(before, cancel_requested=True, cancelled_by="u-1"))
        after = stores.stored(run.run_id)
        assert after.row_version == before.row_version + 1
        assert after.cancel_requested

    def test_saving_what_stands_writes_nothing(self, stores: Stores) -> None:
        run = stores.triggered()
        with stores.api.unit.begin(A_TENANT) as tx:
            before = require_run(tx.runs.for_update(run.run_id))
            tx.runs.save(before)
        assert stores.stored(run.run_id) == before

    def test_a_save_never_moves_the_numbering(self, stores: Stores) -> None:
        run = stores.triggered()
        with stores.controller.unit.begin(A_TENANT) as tx:
            before = require_run(tx.runs.for_update(run.run_id))
            tx.runs.save(replace(before, last_sequence=99, feed_rv=10**12, attempt=1))
        after = stores.stored(run.run_id)
        assert (after.last_sequence, after.feed_rv) == (before.last_sequence, before.feed_rv)

    def test_two_saves_of_one_transaction_both_stand(self, stores: Stores) -> None:
        run = stores.triggered()
        with stores.controller.unit.begin(A_TENANT) as tx:
            first = replace(require_run(tx.runs.for_update(run.run_id)), attempt=1)
            tx.runs.save(first)
            tx.runs.save(replace(first, wish=Wish.STOP))
        after = stores.stored(run.run_id)
        assert (after.attempt, after.wish) == (1, Wish.STOP)

    def test_only_a_locked_run_is_saved(self, stores: Stores) -> None:
        run = stores.triggered()
        with pytest.raises(LookupError):
            carry_out(stores.api.unit, A_TENANT, lambda tx: tx.runs.save(run))

    def test_an_unknown_run_is_none(self, stores: Stores) -> None:
        unknown = a_run().run_id
        with stores.api.unit.begin(A_TENANT) as tx:
            assert tx.runs.get(unknown) is None
            assert tx.runs.for_update(unknown) is None
            assert tx.runs.history(unknown) == []

    def test_a_fact_of_an_unknown_run_is_refused(self, stores: Stores) -> None:
        unknown, fact = a_run().run_id, a_fact()
        with pytest.raises(LookupError):
            carry_out(stores.controller.unit, A_TENANT, lambda tx: tx.runs.record(unknown, fact))

    def test_facts_are_numbered_without_gaps(self, stores: Stores) -> None:
        run = stores.triggered()
        facts = [a_fact(), a_fact(), a_fact()]
        numbers = []
        for fact in facts:
            with stores.controller.unit.begin(A_TENANT, feed=8) as tx:
                tx.runs.for_update(run.run_id)
                numbers.append(tx.runs.record(run.run_id, fact))
        assert numbers == [2, 3, 4]
        assert stores.stored(run.run_id).last_sequence == 4

    def test_a_fact_comes_back_digit_for_digit(self, stores: Stores) -> None:
        run, fact = stores.triggered(), a_fact()
        with stores.controller.unit.begin(A_TENANT, feed=8) as tx:
            tx.runs.for_update(run.run_id)
            tx.runs.record(run.run_id, fact)
            (stored,) = tx.runs.history(run.run_id, after=1)
        assert stored == replace(fact, sequence=2, rv=stored.rv)
        assert str(stored.data["limit"]) == "0.010"

    def test_feed_numbers_follow_the_sequence(self, stores: Stores) -> None:
        run = stores.triggered()
        for _ in range(3):
            with stores.controller.unit.begin(A_TENANT, feed=8) as tx:
                tx.runs.for_update(run.run_id)
                tx.runs.record(run.run_id, a_fact())
                tx.runs.record(run.run_id, a_fact())
        lines = stores.queries.run_events(A_TENANT, run.run_id, after=0, limit=100)
        assert [line.sequence for line in lines] == [1, 2, 3, 4, 5, 6, 7]
        assert sorted(line.rv for line in lines) == [line.rv for line in lines]
        assert stores.stored(run.run_id).feed_rv == lines[-1].rv

    def test_a_fact_recorded_before_only_gets_its_disposition(self, stores: Stores) -> None:
        run, fact = stores.triggered(), a_fact(disposition=Disposition.HISTORY)
        with stores.controller.unit.begin(A_TENANT, feed=8) as tx:
            tx.runs.for_update(run.run_id)
            first = tx.runs.record(run.run_id, fact)
            again = tx.runs.record(run.run_id, replace(fact, disposition=Disposition.LATE))
            lines = tx.runs.history(run.run_id, after=1)
        assert again == first
        assert [line.disposition for line in lines] == [Disposition.LATE]

    def test_history_is_read_in_pages(self, stores: Stores) -> None:
        run = stores.triggered()
        with stores.controller.unit.begin(A_TENANT, feed=8) as tx:
            tx.runs.for_update(run.run_id)
            for _ in range(4):
                tx.runs.record(run.run_id, a_fact())
            page = tx.runs.history(run.run_id, after=2, limit=2)
        assert [line.sequence for line in page] == [3, 4]

    def test_the_newest_ended_run_of_each_job(self, stores: Stores) -> None:
        """Read as the resource-controller, which decides by it whether a sink is proven."""
        first, second, third = JobId(an_id()), JobId(an_id()), JobId(an_id())
        self.end(stores, stores.triggered(job_id=first))
        newer = self.end(stores, stores.triggered(job_id=first, created_at=NOON + HOUR))
        stores.triggered(job_id=first, created_at=NOON + 2 * HOUR)  # which has not ended
        other = self.end(stores, stores.triggered(job_id=second))
        stores.triggered(job_id=third)
        with stores.resources.unit.begin(A_TENANT, read_only=True) as tx:
            assert tx.runs.newest_ended([first, second, third]) == {first: newer, second: other}
            assert tx.runs.newest_ended([]) == {}
        with stores.resources.unit.begin(B_TENANT, read_only=True) as tx:
            assert tx.runs.newest_ended([first, second]) == {}

    def end(self, stores: Stores, run: Run) -> Run:
        with stores.controller.unit.begin(A_TENANT, feed=8) as tx:
            before = require_run(tx.runs.for_update(run.run_id))
            tx.runs.save(
                replace(
                    before,
                    status=RunStatus.COMPLETED,
                    result=RunResult.MATCHED,
                    summary=SUMMARY,
                    ended_at=tx.now,
                    closed_at=tx.now,
                )
            )
        return stores.stored(run.run_id)


class QueriesConformance:
    def test_one_query_for_many_followers_answers_each_as_alone(self, stores: Stores) -> None:
        runs = [stores.triggered() for _ in range(2)]
        with stores.controller.unit.begin(A_TENANT, feed=8) as tx:
            for run in (*runs, runs[0]):
                tx.runs.for_update(run.run_id)
                tx.runs.record(run.run_id, a_fact())
        foreign = stores.triggered(tenant_id=B_TENANT)
        one, other = (run.run_id for run in runs)
        seen = [(one, 0), (other, 1), (one, 3), (foreign.run_id, 0), (one, 9)]
        queries = stores.queries
        alone = [queries.run_events(A_TENANT, run, after=n, limit=2) for run, n in seen]
        assert queries.news(A_TENANT, seen, limit=2) == alone
        assert [[line.sequence for line in lines] for lines in alone] == [[1, 2], [2], [], [], []]
        states = queries.runs_of(A_TENANT, [one, other, foreign.run_id])
        assert states == {run: queries.run(A_TENANT, run) for run in (one, other)}

    def runs(self, stores: Stores) -> list[Run]:
        """Five runs of A at different times, newest first, and one of B."""
        stores.triggered(tenant_id=B_TENANT)
        made = [stores.triggered(created_at=NOON + timedelta(minutes=n)) for n in range(5)]
        return list(reversed(made))

    def test_runs_are_listed_newest_first_in_pages(self, stores: Stores) -> None:
        expected = [run.run_id for run in self.runs(stores)]
        first = stores.queries.runs(A_TENANT, RunFilter(), limit=2)
        cursor = (first[-1].created_at, first[-1].run_id)
        rest = stores.queries.runs(A_TENANT, RunFilter(), limit=10, before=cursor)
        assert [run.run_id for run in [*first, *rest]] == expected

    def test_runs_of_one_instant_are_ordered_by_their_id(self, stores: Stores) -> None:
        made = [stores.triggered().run_id for _ in range(3)]
        first = stores.queries.runs(A_TENANT, RunFilter(), limit=1)
        cursor = (first[0].created_at, first[0].run_id)
        rest = stores.queries.runs(A_TENANT, RunFilter(), limit=10, before=cursor)
        assert [run.run_id for run in [*first, *rest]] == sorted(made, reverse=True)

    def test_every_filter_narrows_the_list(self, stores: Stores) -> None:
        newest, *_, oldest = self.runs(stores)
        wanted = {
            "job_id": (RunFilter(job_id=newest.job_id), 1),
            "job_name": (RunFilter(job_name=newest.job_name), 5),
            "status": (RunFilter(status="TRIGGERED"), 5),
            "no such status": (RunFilter(status="QUEUED"), 0),
            "result": (RunFilter(result="MATCHED"), 0),
            "error_code": (RunFilter(error_code="CRASHED"), 0),
            "mode": (RunFilter(mode="IMMEDIATE"), 5),
            "since is inclusive": (RunFilter(since=newest.created_at), 1),
            "until is exclusive": (RunFilter(until=newest.created_at), 4),
            "cancel_requested": (RunFilter(cancel_requested=True), 0),
            "all": (RunFilter(since=oldest.created_at, cancel_requested=False), 5),
        }
        counted = {
            name: len(stores.queries.runs(A_TENANT, where, limit=50))
            for name, (where, _) in wanted.items()
        }
        assert counted == {name: expected for name, (_, expected) in wanted.items()}

    def test_an_id_is_resolved_by_its_first_characters(self, stores: Stores) -> None:
        run, other = stores.triggered(), stores.triggered()
        both = str(run.run_id)[:20]
        assert stores.queries.runs_with_prefix(A_TENANT, str(run.run_id)) == [run.run_id]
        assert stores.queries.runs_with_prefix(A_TENANT, both) == sorted([run.run_id, other.run_id])
        assert stores.queries.runs_with_prefix(A_TENANT, "ffff") == []
        assert stores.queries.runs_with_prefix(B_TENANT, both) == []

    @pytest.mark.parametrize("text", ["zz", "%", "0-19", "{019", 40 * "0"])
    def test_what_is_no_start_of_an_id_finds_nothing(self, stores: Stores, text: str) -> None:
        stores.triggered()
        assert stores.queries.runs_with_prefix(A_TENANT, text) == []
