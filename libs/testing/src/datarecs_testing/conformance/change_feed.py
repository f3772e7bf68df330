"""Conformance suites of the feeds: commit order, lines of one tenant, correct cursors."""

from datetime import timedelta

import pytest

from datarecs_application.ports.feed import EventFilter, FeedEntry
from datarecs_core.resources.change_feed import ResourceChange, WatchFilter
from datarecs_core.resources.changes import Op
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.values import TenantId
from datarecs_testing.builders import A_TENANT, B_TENANT, NOON, a_resource, an_id
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


CONNECTIONS = WatchFilter(kind=Kind.CONNECTION)


def written(
    stores: Stores, *, op: str = "CREATED", tenant: TenantId = A_TENANT, **fields: object
) -> Resource:
    """A recorded change in its own transaction."""
    old_labels = {"team": "hr"} if op == "UPDATED" else None
    with stores.api.unit.begin(tenant, feed=1) as tx:
        resource = a_resource(tenant_id=tenant, **{**fields, "rv": tx.next_rv()})
        tx.resources.record_change(
            resource, op=op, changed=["labels"], actor="u-1", old_labels=old_labels
        )
    return resource


def changes(
    stores: Stores, tenant: TenantId = A_TENANT, where: WatchFilter | None = CONNECTIONS
) -> list[ResourceChange]:
    head = stores.changes.head()
    return stores.changes.entries(tenant, where, after=0, upto=head, limit=100)


class ResourceFeedConformance:
    def test_an_empty_feed_has_no_head(self, stores: Stores) -> None:
        assert stores.changes.head() == 0
        assert stores.changes.read_after(after=0, limit=10).entries == ()

    def test_the_numbers_of_all_tenants_are_shown_in_order(self, stores: Stores) -> None:
        ours, theirs = written(stores), written(stores, tenant=B_TENANT)
        batch = stores.changes.read_after(after=0, limit=10)
        assert batch.entries == ((A_TENANT, ours.rv), (B_TENANT, theirs.rv))
        assert stores.changes.head() == theirs.rv
        assert stores.changes.read_after(after=ours.rv, limit=10).entries == batch.entries[1:]

    @pytest.mark.parametrize("op", list(Op))
    def test_a_change_carries_the_object_after_the_write(self, stores: Stores, op: Op) -> None:
        resource = written(
            stores,
            op=str(op),
            version=7,
            spec={"text": "größe", "list": [1, None, True]},
            status={"phase": "Ready"},
            labels={"team": "finance"},
            annotations={"note": "x"},
            finalizers=("datarecs.io/in-use",),
            deletion_at=NOON,
        )
        (change,) = changes(stores)
        assert (change.resource, change.op, change.rv) == (resource, op, resource.rv)
        assert (change.changed, change.actor) == (("labels",), "u-1")
        assert change.old_labels == ({"team": "hr"} if op is Op.UPDATED else None)
        assert not stores.changes.lacks_objects(A_TENANT, 0)

    @pytest.mark.case("R71")
    def test_changes_are_of_one_tenant(self, stores: Stores) -> None:
        ours, theirs = written(stores), written(stores, tenant=B_TENANT)
        assert [one.resource for one in changes(stores)] == [ours]
        assert [one.resource for one in changes(stores, B_TENANT)] == [theirs]

    def test_a_reader_may_want_one_kind_and_namespace(self, stores: Stores) -> None:
        plain, other = written(stores), written(stores, namespace="other")
        rule = written(stores, kind=Kind.NOTIFICATION_RULE)
        assert [one.resource for one in changes(stores)] == [plain, other]
        within = WatchFilter(kind=Kind.CONNECTION, namespace="other")
        assert [one.resource for one in changes(stores, where=within)] == [other]
        assert [one.resource for one in changes(stores, where=None)] == [plain, other, rule]

    def test_changes_lie_between_two_numbers(self, stores: Stores) -> None:
        rvs = [written(stores).rv for _ in range(4)]
        some = stores.changes.entries(A_TENANT, None, after=rvs[0], upto=rvs[2], limit=9)
        assert [one.rv for one in some] == rvs[1:3]
        cut = stores.changes.entries(A_TENANT, None, after=0, upto=rvs[3], limit=2)
        assert [one.rv for one in cut] == rvs[:2]

    def test_a_number_nobody_was_shown_lacks_objects(self, stores: Stores) -> None:
        rv = written(stores).rv
        assert not stores.changes.lacks_objects(A_TENANT, rv)
        assert stores.changes.lacks_objects(A_TENANT, rv + 1)

    def test_changes_of_a_name_are_read_newest_first_in_pages(self, stores: Stores) -> None:
        rvs = [written(stores, op=op, name="x").rv for op in ("CREATED", "DELETED", "CREATED")]
        written(stores, name="y")
        written(stores, name="x", namespace="other")
        written(stores, name="x", tenant=B_TENANT)
        with stores.api.unit.begin(A_TENANT, read_only=True) as tx:
            key = (Kind.CONNECTION, "default", "x")
            first = tx.resources.changes_of(*key, limit=2)
            rest = tx.resources.changes_of(*key, limit=2, before=first[-1].rv)
        assert [one.rv for one in (*first, *rest)] == list(reversed(rvs))
