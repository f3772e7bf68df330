"""Pointers in DynamoDB, on a server of moto."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import random

import pytest

from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.ports.catalogue import Pointers
from datarecs_core.catalog.pointers import Applied, Bump, Check, CheckPresent, Delete, Op, Pointer
from datarecs_core.errors.catalogue import BatchTooLargeError
from datarecs_core.values import TenantId
from datarecs_dynamodb.pointers import TRIES, DynamoPointers
from datarecs_dynamodb.table import MAX_TRANSACTION, Call, LostRaceError, PointerTable, open_table
from datarecs_testing.builders import A_TENANT, B_TENANT
from datarecs_testing.clock import ManualClock
from datarecs_testing.conformance.pointers import KEY, ROOT, PointersConformance, upsert
from datarecs_testing.dynamo_server import DynamoServer

pytestmark = pytest.mark.integration


@dataclass(frozen=True, slots=True, kw_only=True)
class ContestedTable(PointerTable):
    """A table in which others write between the reads and the write of a batch."""

    others: list[Callable[[], object]] = field(default_factory=list)

    def write(self, operations: Sequence[tuple[str, Call]]) -> None:
        if self.others:
            self.others.pop(0)()
        PointerTable.write(self, operations)


class BusyTable(PointerTable):
    """A table in which every transaction loses."""

    def write(self, operations: Sequence[tuple[str, Call]]) -> None:  # noqa: ARG002 - of the table
        raise LostRaceError


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(by_itself=True)


@pytest.fixture
def pointers(table: PointerTable, clock: ManualClock) -> Pointers:
    return pointers_of(table, clock)


def pointers_of(
    table: PointerTable, clock: ManualClock, tenant: TenantId = A_TENANT
) -> DynamoPointers:
    return DynamoPointers(table=table, tenant=tenant, clock=clock, jitter=random)


class TestDynamoPointers(PointersConformance):
    writers = 8

    @pytest.fixture
    def store_now(self, clock: ManualClock) -> Callable[[], datetime]:
        return clock.now

    @pytest.fixture
    def pass_time(self, clock: ManualClock) -> Callable[[timedelta], None]:
        return clock.advance


@pytest.mark.case("S41")
def test_a_batch_of_more_keys_than_a_transaction_is_refused_whole(pointers: Pointers) -> None:
    ops = [Bump(key=f"{ROOT}many/{number:03d}") for number in range(MAX_TRANSACTION + 1)]
    with pytest.raises(BatchTooLargeError, match="101 keys at once are more than 100"):
        pointers.batch(ops)
    assert pointers.count(f"{ROOT}many/", cap=1) == 0
    assert isinstance(pointers.batch(ops[1:]), Applied)
    with pytest.raises(BatchTooLargeError):
        pointers.get_many([op.key for op in ops])
    assert len(pointers.get_many([op.key for op in ops[1:]])) == MAX_TRANSACTION


@pytest.mark.case("S51")
@pytest.mark.parametrize("lost", [1, 3])
def test_a_transaction_with_a_lost_answer_takes_effect_once(
    pointers: Pointers, dynamo_server: DynamoServer, lost: int
) -> None:
    pointers.batch([upsert(f"{ROOT}old", 0)])
    dynamo_server.tokens.clear()
    dynamo_server.lost_answers = lost
    ops: list[Op] = [upsert(KEY, 0, blob_key="a"), Delete(key=f"{ROOT}old", expected=1)]
    assert pointers.batch(ops) == Applied(versions={KEY: 1})
    assert len(dynamo_server.tokens) == lost + 1
    assert len(set(dynamo_server.tokens)) == 1
    assert pointers.list(ROOT, limit=5).pointers == (Pointer(key=KEY, blob_key="a"),)


def test_pointers_of_another_account_are_not_seen(
    pointers: Pointers, table: PointerTable, clock: ManualClock
) -> None:
    others = pointers_of(table, clock, tenant=B_TENANT)
    others.batch([Bump(key=f"/accounts/{B_TENANT}/catalogs/one")])
    pointers.batch([Bump(key=KEY)])
    assert [one.key for one in pointers.list(ROOT, limit=5).pointers] == [KEY]
    assert pointers.delete_prefix(ROOT, limit=5) == 1
    assert others.count(f"/accounts/{B_TENANT}/", cap=5) == 1


@pytest.mark.parametrize(
    "op",
    [
        upsert(KEY, 1),
        Delete(key=KEY, expected=1),
        Check(key=KEY, expected=1),
        CheckPresent(key=KEY),
        upsert(f"{ROOT}new", 0),
        Check(key=f"{ROOT}new", expected=0),
    ],
)
def test_a_batch_that_others_overtake_is_decided_again(
    table: PointerTable, clock: ManualClock, op: Op
) -> None:
    pointers_of(table, clock).batch([Bump(key=KEY)])
    others = pointers_of(table, clock)
    contested = ContestedTable(client=table.client, name=table.name)
    contested.others.append(
        lambda: others.batch([Delete(key=KEY, expected=1), Bump(key=f"{ROOT}new")])
    )
    outcome = pointers_of(contested, clock).batch([Bump(key=f"{ROOT}marker"), op])
    assert not isinstance(outcome, Applied)
    assert outcome.index == 1
    assert [one.key for one in others.list(ROOT, limit=5).pointers] == [f"{ROOT}new"]


def test_a_bump_that_others_overtake_counts_both(table: PointerTable, clock: ManualClock) -> None:
    others = pointers_of(table, clock)
    contested = ContestedTable(client=table.client, name=table.name)
    contested.others.extend([lambda: others.batch([Bump(key=KEY)])] * 3)
    assert pointers_of(contested, clock).batch([Bump(key=KEY)]) == Applied(versions={KEY: 4})


def test_a_raised_pointer_has_the_same_content(pointers: Pointers) -> None:
    pointers.batch([upsert(KEY, 0, blob_key="a", payload=b"{}")])
    assert pointers.batch([Bump(key=KEY)]) == Applied(versions={KEY: 2})
    assert pointers.get(KEY) == Pointer(key=KEY, blob_key="a", payload=b"{}", version=2)


def test_an_expired_marker_begins_again(pointers: Pointers, clock: ManualClock) -> None:
    soon = clock.now() + timedelta(minutes=1)
    pointers.batch([upsert(KEY, 0, blob_key="a", expires_at=soon)])
    clock.advance(timedelta(minutes=2))
    assert pointers.batch([Bump(key=KEY)]) == Applied(versions={KEY: 1})
    assert pointers.get(KEY) == Pointer(key=KEY)


def test_endless_races_are_reported_as_busy(table: PointerTable, clock: ManualClock) -> None:
    busy = BusyTable(client=table.client, name=table.name)
    begun = clock.now()
    with pytest.raises(StoreBusyError, match=f"{KEY} in {TRIES} tries"):
        pointers_of(busy, clock).batch([Bump(key=KEY)])
    assert clock.now() > begun


def test_a_table_that_does_not_exist_is_named(
    table: PointerTable, dynamo_server: DynamoServer, clock: ManualClock
) -> None:
    del table  # sets the credentials
    absent = open_table("absent", region="eu-central-1", endpoint=dynamo_server.endpoint)
    with pytest.raises(StoreUnavailableError, match="table absent of DynamoDB"):
        pointers_of(absent, clock).get(KEY)
