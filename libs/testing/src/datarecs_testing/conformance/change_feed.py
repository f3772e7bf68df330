"""Conformance suite of ChangeFeed: commit order, entries of one tenant, correct cursors."""

from datetime import timedelta

import pytest

from datarecs_application.ports.feed import EventFilter, FeedEntry
from datarecs_core.values import TenantId
from datarecs_testing.builders import A_TENANT, B_TENANT, an_id
from datarecs_testing.conformance.runs import a_fact
from datarecs_testing.conformance.stores import Stores, carry_out

ANY = EventFilter()
DAY = timedelta(hours=24)


def everything(
    stores: Stores, tenant: TenantId = A_TENANT, where: EventFilter = ANY
) -> list[FeedEntry]:
    head = stores.feed.head()
    return stores.feed.entries(tenant, where, after=0, upto=head, limit=100)


class ChangeFeedConformance:
    def test_an_empty_feed_has_no_head(self, stores: Stores) -> None:
        assert stores.feed.head() == 0
        assert stores.feed.read_after(after=0, limit=10).entries == ()
        assert everything(stores) == []

    def test_the_numbers_of_all_tenants_are_shown_in_order(self, stores: Stores) -> None:
        stores.triggered()
        stores.triggered(tenant_id=B_TENANT)
        batch = stores.feed.read_after(after=0, limit=10)
        assert [tenant for tenant, _ in batch.entries] == [A_TENANT, B_TENANT]
        assert batch.entries[0][1] < batch.entries[1][1] == stores.feed.head()

    def test_a_read_continues_after_a_number(self, stores: Stores) -> None:
        for _ in range(3):
            stores.triggered()
        first = stores.feed.read_after(after=0, limit=2).entries
        rest = stores.feed.read_after(after=first[-1][1], limit=2).entries
        assert len(first) == 2
        assert [rv for _, rv in rest] == [stores.feed.head()]

    def test_with_nobody_writing_all_that_has_begun_has_ended(self, stores: Stores) -> None:
        stores.triggered()
        batch = stores.feed.read_after(after=0, limit=10)
        assert batch.ended >= batch.begun

    def test_entries_carry_run_job_and_line(self, stores: Stores) -> None:
        run = stores.triggered()
        carry_out(stores.worker.unit, A_TENANT, lambda tx: tx.runs.record(run.run_id, a_fact()))
        entries = everything(stores)
        lines = stores.queries.run_events(A_TENANT, run.run_id, after=0, limit=10)
        assert [one.entry for one in entries] == lines
        assert {(one.run_id, one.job_id) for one in entries} == {(run.run_id, run.job_id)}

    @pytest.mark.case("X04")
    def test_entries_are_of_one_tenant(self, stores: Stores) -> None:
        ours, theirs = stores.triggered(), stores.triggered(tenant_id=B_TENANT)
        assert [one.run_id for one in everything(stores)] == [ours.run_id]
        assert [one.run_id for one in everything(stores, B_TENANT)] == [theirs.run_id]

    def test_entries_lie_between_two_numbers(self, stores: Stores) -> None:
        runs = [stores.triggered() for _ in range(4)]
        rvs = [one.entry.rv for one in everything(stores)]
        entries = stores.feed.entries(A_TENANT, ANY, after=rvs[0], upto=rvs[2], limit=10)
        assert [one.run_id for one in entries] == [run.run_id for run in runs[1:3]]
        cut = stores.feed.entries(A_TENANT, ANY, after=0, upto=rvs[3], limit=2)
        assert [one.run_id for one in cut] == [run.run_id for run in runs[:2]]

    def test_a_reader_may_want_some_types(self, stores: Stores) -> None:
        run = stores.triggered()
        fact = a_fact(type="attempt_lost")
        carry_out(stores.worker.unit, A_TENANT, lambda tx: tx.runs.record(run.run_id, fact))
        (match,) = everything(stores, where=EventFilter(types=frozenset({"attempt_lost", "x"})))
        assert match.entry.event_id == fact.event_id

    def test_a_reader_may_want_one_job(self, stores: Stores) -> None:
        stores.triggered(job_id=an_id())
        wanted = stores.triggered(job_id=an_id())
        (match,) = everything(stores, where=EventFilter(job_id=wanted.job_id))
        assert match.run_id == wanted.run_id

    def test_a_cursor_of_today_is_good(self, stores: Stores) -> None:
        stores.triggered()
        seen = stores.feed.head()
        stores.triggered()
        assert not stores.feed.is_expired(A_TENANT, seen, age=DAY)
        assert not stores.feed.is_expired(A_TENANT, 0, age=DAY)

    @pytest.mark.case("L42")
    def test_a_cursor_is_expired_when_what_follows_is_too_old(self, stores: Stores) -> None:
        stores.triggered()
        seen = stores.feed.head()
        stores.triggered()
        stores.pass_time(DAY + timedelta(seconds=1))
        assert stores.feed.is_expired(A_TENANT, seen, age=DAY)
        assert stores.feed.is_expired(A_TENANT, 0, age=DAY)

    def test_a_cursor_is_expired_when_it_is_too_old_itself(self, stores: Stores) -> None:
        stores.triggered()
        seen = stores.feed.head()
        stores.pass_time(DAY + timedelta(seconds=1))
        stores.triggered()
        assert stores.feed.is_expired(A_TENANT, seen, age=DAY)

    def test_a_cursor_before_which_nothing_is_left_is_expired(self, stores: Stores) -> None:
        stores.triggered(tenant_id=B_TENANT)
        stores.triggered()
        assert stores.feed.is_expired(A_TENANT, 1, age=DAY)

    def test_nobody_has_missed_anything_where_nothing_follows(self, stores: Stores) -> None:
        stores.triggered()
        stores.pass_time(2 * DAY)
        assert not stores.feed.is_expired(A_TENANT, stores.feed.head(), age=DAY)
        assert not stores.feed.is_expired(B_TENANT, stores.feed.head(), age=DAY)

    def test_a_number_nobody_was_shown_is_expired(self, stores: Stores) -> None:
        stores.triggered()
        assert stores.feed.is_expired(A_TENANT, stores.feed.head() + 1, age=DAY)
