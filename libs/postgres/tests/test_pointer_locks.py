"""Transactions of several batches of pointers, which captures have, never wait for each other."""

from collections.abc import Callable
from threading import Event

import pytest

from datarecs_application.catalogue.pointer_store import PointerStore
from datarecs_core.catalog.pointers import Bump
from datarecs_testing.builders import A_TENANT
from datarecs_testing.conformance.stores import Stores
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.threads import at_once

pytestmark = pytest.mark.integration
FIRST, SECOND = (f"/accounts/{A_TENANT}/order/{name}" for name in ("first", "second"))
WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


@pytest.mark.case("S06")
def test_two_transactions_with_the_same_keys_in_opposite_order_are_serial(
    stores: Stores, database: PreparedDatabase
) -> None:
    is_begun, is_other_begun = Event(), Event()

    def bump(first: str, second: str, between: Callable[[], None]) -> None:
        with stores.capture.unit.begin(A_TENANT) as tx:
            tx.pointers.batch([Bump(key=first)])
            between()
            tx.pointers.batch([Bump(key=second)])

    def until_the_other_waits() -> None:
        is_begun.set()
        while not is_other_begun.is_set() and database.query(WAITING) == [(0,)]:
            pass

    def follow() -> None:
        assert is_begun.wait(30)
        bump(SECOND, FIRST, is_other_begun.set)

    at_once([lambda: bump(FIRST, SECOND, until_the_other_waits), follow])
    pointers = PointerStore(unit=stores.capture.unit, tenant=A_TENANT)
    assert {one.version for one in pointers.get_many([FIRST, SECOND]).values()} == {2}
