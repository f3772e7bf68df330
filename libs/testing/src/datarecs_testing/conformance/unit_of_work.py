"""Conformance suite of UnitOfWork: atomic, one tenant, database time, feed numbers."""

from datetime import timedelta

import pytest

from datarecs_application.errors import FeedNotDrawnError
from datarecs_application.ports.state import Transaction
from datarecs_testing.builders import A_TENANT, B_TENANT, a_run
from datarecs_testing.conformance.stores import Stores, carry_out, triggered


class UnitOfWorkConformance:
    def test_a_block_that_ends_well_is_committed(self, stores: Stores) -> None:
        run = stores.triggered()
        assert stores.stored(run.run_id).run_id == run.run_id

    def test_a_block_that_raises_leaves_nothing(self, stores: Stores) -> None:
        run = a_run()

        def fail(tx: Transaction) -> None:
            tx.runs.add(run)
            tx.outbox.append(triggered(run))
            tx.timers.put(run.run_id, "submit", tx.now)
            raise RuntimeError

        with pytest.raises(RuntimeError):
            carry_out(stores.api.unit, A_TENANT, fail)
        assert stores.queries.run(A_TENANT, run.run_id) is None
        assert stores.unsent() == []

    def test_a_transaction_sees_what_it_wrote(self, stores: Stores) -> None:
        run = a_run()
        with stores.api.unit.begin(A_TENANT) as tx:
            tx.runs.add(run)
            seen = tx.runs.get(run.run_id)
        assert seen is not None
        assert seen.run_id == run.run_id

    def test_a_transaction_knows_its_tenant_and_its_time(self, stores: Stores) -> None:
        with stores.api.unit.begin(B_TENANT) as tx:
            assert tx.tenant_id == B_TENANT
            assert tx.now.utcoffset() == timedelta(0)
            assert tx.now == tx.now

    def test_feed_numbers_grow_and_are_used_up(self, stores: Stores) -> None:
        with stores.api.unit.begin(A_TENANT, feed=2) as tx:
            first, second = tx.next_rv(), tx.next_rv()
            with pytest.raises(FeedNotDrawnError) as failure:
                tx.next_rv()
        assert second == first + 1
        assert failure.value.drawn == 2

    def test_a_later_transaction_draws_higher_numbers_even_after_a_rollback(
        self, stores: Stores
    ) -> None:
        drawn: list[int] = []

        def fail(tx: Transaction) -> None:
            drawn.append(tx.next_rv())
            raise RuntimeError

        with pytest.raises(RuntimeError):
            carry_out(stores.api.unit, A_TENANT, fail)
        with stores.api.unit.begin(B_TENANT, feed=1) as tx:
            assert tx.next_rv() > drawn[0]

    def test_a_feed_is_not_written_without_a_number(self, stores: Stores) -> None:
        run = stores.triggered()
        with pytest.raises(FeedNotDrawnError):
            carry_out(
                stores.api.unit, A_TENANT, lambda tx: tx.outbox.append(triggered(run)), feed=0
            )

    def test_a_reading_transaction_sees_what_is_committed(self, stores: Stores) -> None:
        run = stores.triggered()
        with stores.api.unit.begin(A_TENANT, read_only=True) as tx:
            assert tx.runs.get(run.run_id) is not None
            assert len(tx.runs.history(run.run_id)) == 1

    def test_a_wake_up_harms_nobody(self, stores: Stores) -> None:
        with stores.api.unit.begin(A_TENANT) as tx:
            tx.wake()
            tx.wake()
