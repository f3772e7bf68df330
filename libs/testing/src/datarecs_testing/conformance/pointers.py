"""Conformance suite of Pointers, with several processes that share them."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import TypeVar

import pytest

from datarecs_application.capturing import queue
from datarecs_application.catalogue.pointer_store import PointerStore
from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_core.captures.items import WorkState
from datarecs_core.catalog import layout
from datarecs_core.catalog.pointers import (
    MAX_BATCH,
    MAX_PAYLOAD_BYTES,
    Applied,
    Bump,
    Check,
    CheckPresent,
    Delete,
    Op,
    Outcome,
    Pointer,
    Reason,
    Rejected,
    Upsert,
    token_after,
)
from datarecs_core.errors.catalogue import PointerRefusedError
from datarecs_testing.builders import A_TENANT, B_TENANT, an_id
from datarecs_testing.captures import CaptureQueue
from datarecs_testing.conformance.stores import Stores
from datarecs_testing.threads import Work, at_once

ROOT = f"/accounts/{A_TENANT}/"
KEY = f"{ROOT}catalogs/one"
Answer = TypeVar("Answer")
WRITERS = 48
INCREMENTS = 20
RACES = 100


def upsert(key: str, expected: int, **content: object) -> Upsert:
    return Upsert(next=Pointer(key=key, **content), expected=expected)  # type: ignore[arg-type]  # as passed


class PointersConformance:
    """Subclass it; `stores` is the fixture of the state ports."""

    @pytest.fixture
    def pointers(self, stores: Stores) -> PointerStore:
        return PointerStore(unit=stores.capture.unit, tenant=A_TENANT)

    @pytest.mark.case("S01")
    def test_a_pointer_is_created_once_and_each_change_raises_its_version(
        self, pointers: PointerStore
    ) -> None:
        owner = an_id()
        first = upsert(KEY, 0, blob_key="a", payload=b"{}", resource_id=owner)
        assert pointers.batch([first]) == Applied(versions={KEY: 1})
        assert pointers.batch([first]) == Rejected(index=0, key=KEY, reason=Reason.PRESENT)
        assert pointers.get(KEY) == first.next
        assert pointers.batch([upsert(KEY, 1, blob_key="b")]) == Applied(versions={KEY: 2})
        assert pointers.get(KEY) == Pointer(key=KEY, blob_key="b", version=2)

    @pytest.mark.case("S02")
    @pytest.mark.parametrize("expected", [1, 3, 99])
    def test_a_change_or_deletion_at_another_version_has_no_effect(
        self, pointers: PointerStore, expected: int
    ) -> None:
        pointers.batch([upsert(KEY, 0, blob_key="a")])
        pointers.batch([upsert(KEY, 1, blob_key="b")])
        stale: list[Op] = [upsert(KEY, expected), Delete(key=KEY, expected=expected)]
        for op in stale:
            assert pointers.batch([op]) == Rejected(index=0, key=KEY, reason=Reason.VERSION)
        assert pointers.get(KEY) == Pointer(key=KEY, blob_key="b", version=2)
        assert pointers.batch([Delete(key=KEY, expected=2)]) == Applied()
        assert pointers.batch([Delete(key=KEY, expected=2)]) == Rejected(
            index=0, key=KEY, reason=Reason.ABSENT
        )

    @pytest.mark.case("S03")
    @pytest.mark.parametrize("place", range(8))
    def test_one_operation_that_does_not_hold_rejects_the_whole_batch(
        self, pointers: PointerStore, place: int
    ) -> None:
        present = f"{ROOT}present"
        pointers.batch([upsert(present, 0, blob_key="a")])
        good = [upsert(f"{ROOT}new/{number}", 0) for number in range(7)]
        bad = Check(key=present, expected=0)
        outcome = pointers.batch([*good[:place], bad, *good[place:]])
        assert outcome == Rejected(index=place, key=present, reason=Reason.PRESENT)
        assert pointers.list(ROOT, limit=10).pointers == (Pointer(key=present, blob_key="a"),)

    def test_a_batch_checks_changes_and_deletes_together(self, pointers: PointerStore) -> None:
        keys = [f"{ROOT}batch/{number}" for number in range(4)]
        pointers.batch([upsert(key, 0) for key in keys[:3]])
        outcome = pointers.batch(
            [
                Check(key=keys[0], expected=1),
                CheckPresent(key=keys[1]),
                Delete(key=keys[2], expected=1),
                Bump(key=keys[3]),
            ]
        )
        assert outcome == Applied(versions={keys[3]: 1})
        assert pointers.batch([Bump(key=keys[3])]) == Applied(versions={keys[3]: 2})
        assert sorted(pointers.get_many(keys)) == [keys[0], keys[1], keys[3]]

    def test_an_absent_key_fails_its_check_of_presence(self, pointers: PointerStore) -> None:
        assert pointers.batch([CheckPresent(key=KEY)]) == Rejected(
            index=0, key=KEY, reason=Reason.ABSENT
        )
        assert pointers.batch([Check(key=KEY, expected=0)]) == Applied()

    @pytest.mark.case("S24")
    def test_a_name_of_another_object_is_not_changed_at_the_same_version(
        self, pointers: PointerStore
    ) -> None:
        first, second = an_id(), an_id()
        pointers.batch([upsert(KEY, 0, resource_id=second)])
        stale: list[Op] = [
            Upsert(next=Pointer(key=KEY), expected=1, resource_id=first),
            Delete(key=KEY, expected=1, resource_id=first),
            CheckPresent(key=KEY, resource_id=first),
        ]
        for op in stale:
            assert pointers.batch([op]) == Rejected(index=0, key=KEY, reason=Reason.RESOURCE)
        assert pointers.batch([Delete(key=KEY, expected=1, resource_id=second)]) == Applied()

    @pytest.mark.case("S04")
    def test_a_key_twice_is_refused_and_an_empty_batch_is_applied(
        self, pointers: PointerStore
    ) -> None:
        with pytest.raises(PointerRefusedError):
            pointers.batch([upsert(KEY, 0), Check(key=KEY, expected=0)])
        assert pointers.batch([]) == Applied()
        assert pointers.get(KEY) is None

    @pytest.mark.parametrize(
        "ops",
        [
            [Delete(key=KEY, expected=0)],
            [upsert(KEY, -1)],
            [upsert(KEY, 0, payload=b"x" * (MAX_PAYLOAD_BYTES + 1))],
            [upsert(f"{ROOT}{'a/' * 520}x", 0)],
            [Bump(key=f"{ROOT}{number}") for number in range(MAX_BATCH + 1)],
        ],
        ids=["delete absent", "negative", "long payload", "long key", "long batch"],
    )
    def test_what_no_store_can_hold_is_refused(
        self, pointers: PointerStore, ops: Sequence[Op]
    ) -> None:
        with pytest.raises(PointerRefusedError):
            pointers.batch(ops)

    @pytest.mark.case("S05")
    def test_many_writers_of_one_pointer_lose_no_increment(self, pointers: PointerStore) -> None:
        def increment() -> None:
            done = 0
            while done < INCREMENTS:
                current = _while_busy(partial(pointers.get, KEY))
                expected = 0 if current is None else current.version
                done += isinstance(_batch(pointers, [upsert(KEY, expected)]), Applied)

        at_once([increment] * WRITERS)
        pointer = pointers.get(KEY)
        assert pointer is not None
        assert pointer.version == WRITERS * INCREMENTS

    @pytest.mark.case("S06")
    def test_batches_over_the_same_keys_in_any_order_are_serial(
        self, pointers: PointerStore
    ) -> None:
        keys = [f"{ROOT}order/{number}" for number in range(6)]

        def write(ordered: Sequence[str]) -> None:
            for _ in range(RACES):
                outcome = _batch(pointers, [Bump(key=key) for key in ordered])
                assert isinstance(outcome, Applied)
                assert len(set(outcome.versions.values())) == 1

        at_once([partial(write, keys), partial(write, keys[::-1])])
        assert {one.version for one in pointers.get_many(keys).values()} == {2 * RACES}

    @pytest.mark.case("S07")
    def test_of_a_creation_and_a_check_of_absence_never_both_hold_in_turn(
        self, pointers: PointerStore
    ) -> None:
        for number in range(RACES):
            left, right = f"{ROOT}race/{number}/left", f"{ROOT}race/{number}/right"
            outcomes: list[Outcome] = []
            batches: list[list[Op]] = [
                [upsert(left, 0), Check(key=right, expected=0)],
                [upsert(right, 0), Check(key=left, expected=0)],
            ]
            at_once([partial(_append, outcomes, pointers, ops) for ops in batches])
            assert sorted(type(one).__name__ for one in outcomes) == ["Applied", "Rejected"]

    @pytest.mark.case("S08")
    def test_an_expired_pointer_is_absent_before_any_sweep(
        self, stores: Stores, pointers: PointerStore
    ) -> None:
        with stores.capture.unit.begin(A_TENANT) as tx:
            soon = tx.now + timedelta(minutes=1)
        pointers.batch([upsert(KEY, 0, blob_key="old", expires_at=soon), Bump(key=f"{ROOT}stays")])
        pointers.batch([upsert(KEY, 1, blob_key="old", expires_at=soon)])
        present = pointers.get(KEY)
        assert present is not None
        assert present.expires_at == soon
        stores.pass_time(timedelta(minutes=2))
        assert pointers.get(KEY) is None
        assert [one.key for one in pointers.list(ROOT, limit=5).pointers] == [f"{ROOT}stays"]
        assert pointers.count(ROOT, cap=5) == 1
        assert pointers.batch([upsert(KEY, 0, blob_key="new")]) == Applied(versions={KEY: 1})
        assert pointers.delete_expired(limit=5) == 0

    def test_a_sweep_deletes_only_expired_pointers(
        self, stores: Stores, pointers: PointerStore
    ) -> None:
        with stores.capture.unit.begin(A_TENANT) as tx:
            soon = tx.now + timedelta(minutes=1)
        keys = [f"{ROOT}sweep/{number}" for number in range(5)]
        pointers.batch([upsert(key, 0, expires_at=soon) for key in keys])
        pointers.batch([upsert(KEY, 0, expires_at=soon + timedelta(hours=1))])
        assert pointers.delete_expired(limit=10) == 0
        stores.pass_time(timedelta(minutes=2))
        assert [pointers.delete_expired(limit=3) for _ in range(3)] == [3, 2, 0]
        assert pointers.get(KEY) is not None

    @pytest.mark.case("S09")
    def test_a_list_has_each_stable_key_once_in_byte_order_while_others_come_and_go(
        self, pointers: PointerStore
    ) -> None:
        names = ["a", "a-b", "a.b", "a=1", "a0", "B", "b", "%C3%BC", "~f", "a/x", "a/b/c"]
        stable = [f"{ROOT}list/{name}" for name in names]
        pointers.batch([upsert(key, 0) for key in stable])
        listed: list[str] = []
        token, turn = None, 0
        while True:
            page = pointers.list(f"{ROOT}list/", limit=2, token=token)
            listed += [one.key for one in page.pointers]
            passing = f"{ROOT}list/{'0z'[turn % 2]}{turn}"
            pointers.batch([upsert(passing, 0)])
            turn += 1
            if turn % 2:
                pointers.batch([Delete(key=passing, expected=1)])
            if page.token is None:
                break
            token = page.token
        assert listed == sorted(listed)
        assert [key for key in listed if key in stable] == sorted(stable)

    @pytest.mark.case("S10")
    def test_a_token_survives_its_key_and_serves_no_other_list(
        self, pointers: PointerStore
    ) -> None:
        keys = [f"{ROOT}list/{number}" for number in range(4)]
        pointers.batch([upsert(key, 0) for key in keys])
        token = pointers.list(f"{ROOT}list/", limit=2).token
        assert token is not None
        pointers.batch([Delete(key=keys[1], expected=1)])
        rest = pointers.list(f"{ROOT}list/", limit=2, token=token)
        assert [one.key for one in rest.pointers] == keys[2:]
        assert rest.token is None
        assert token == token_after(f"{ROOT}list/", keys[1])
        for damaged in ("", "x", token[:-4], f"A{token[1:]}", token_after(ROOT, keys[1])):
            with pytest.raises(PointerRefusedError):
                pointers.list(f"{ROOT}list/", limit=2, token=damaged)

    @pytest.mark.case("S11")
    def test_odd_names_list_no_sibling(self, pointers: PointerStore) -> None:
        names = ["50%_/x", "50%x", "50", "..", ".", "~t", "a b", "ü 🦆", "x" * 255, "_", "%"]
        keys = {name: layout.catalog_by_name(A_TENANT, name) for name in names}
        for key in keys.values():
            if not key.endswith(("%2E", "%2E%2E")):
                pointers.batch([upsert(key, 0), upsert(f"{key}/below", 0)])
        for key in keys.values():
            if not key.endswith(("%2E", "%2E%2E")):
                page = pointers.list(f"{key}/", limit=5)
                assert [one.key for one in page.pointers] == [f"{key}/below"]
                assert pointers.count(f"{key}/", cap=5) == 1

    def test_a_count_ends_at_its_cap(self, pointers: PointerStore) -> None:
        pointers.batch([upsert(f"{ROOT}many/{number}", 0) for number in range(5)])
        assert [pointers.count(f"{ROOT}many/", cap=cap) for cap in (1, 5, 9)] == [1, 5, 5]
        assert pointers.count(f"{ROOT}man/", cap=1) == 0

    def test_a_deleted_prefix_goes_in_pages_and_takes_nothing_beside(
        self, pointers: PointerStore
    ) -> None:
        pointers.batch([upsert(f"{ROOT}t/1/{number}", 0) for number in range(5)])
        pointers.batch([upsert(f"{ROOT}t/10/x", 0), upsert(f"{ROOT}t/1-0/x", 0)])
        assert [pointers.delete_prefix(f"{ROOT}t/1/", limit=3) for _ in range(3)] == [3, 2, 0]
        assert pointers.count(f"{ROOT}t/", cap=9) == 2

    @pytest.mark.case("S14")
    @pytest.mark.case("X08")
    @pytest.mark.parametrize(
        "key",
        [
            f"/accounts/{B_TENANT}/catalogs/one",
            f"/accounts/{B_TENANT}",
            f"{ROOT}../{B_TENANT}/x",
            f"{ROOT}%2E%2E/x",
            f"{ROOT}%2e%2e/x",
            KEY[1:],
            "/accounts/by-name/x",
            "",
        ],
    )
    def test_a_key_of_another_account_or_spelling_is_refused_by_every_method(
        self, pointers: PointerStore, key: str
    ) -> None:
        attempts: list[Work] = [
            lambda: pointers.get(key),
            lambda: pointers.get_many([key]),
            lambda: pointers.batch([Bump(key=key)]),
            lambda: pointers.list(f"{key}/", limit=1),
            lambda: pointers.count(f"{key}/", cap=1),
            lambda: pointers.delete_prefix(f"{key}/", limit=1),
        ]
        for attempt in attempts:
            with pytest.raises(PointerRefusedError):
                attempt()

    def test_the_pointer_of_the_account_itself_can_be_used(self, pointers: PointerStore) -> None:
        key = layout.account_pointer(A_TENANT)
        assert pointers.batch([upsert(key, 0)]) == Applied(versions={key: 1})
        assert pointers.get(key) == Pointer(key=key)

    @pytest.mark.case("S41")
    def test_a_large_batch_is_one_batch(self, pointers: PointerStore) -> None:
        ops = [upsert(f"{ROOT}large/{number:05d}", 0) for number in range(2000)]
        assert isinstance(pointers.batch(ops), Applied)
        assert pointers.count(f"{ROOT}large/", cap=MAX_BATCH) == 2000
        assert isinstance(pointers.batch(ops[1999:]), Rejected)

    @pytest.mark.case("S52")
    def test_a_rollback_takes_pointers_items_and_events_together(self, stores: Stores) -> None:
        captures = CaptureQueue(stores)
        root = captures.put()
        token = captures.take(root)
        before = len(stores.unsent())

        def write() -> None:
            with stores.capture.unit.begin(A_TENANT) as tx:
                tx.pointers.batch([Bump(key=KEY)])
                queue.end_stopped(tx, token, outcome_sha256="0" * 64)
                raise KeyError

        with pytest.raises(KeyError):
            write()
        with stores.capture.unit.begin(A_TENANT) as tx:
            assert tx.pointers.get(KEY) is None
        assert captures.item(root).state is WorkState.RUNNING
        assert len(stores.unsent()) == before


def _while_busy(call: Callable[[], Answer]) -> Answer:
    """The answer of a store that may have no free connection or lock, as loops wait for it."""
    while True:
        try:
            return call()
        except (StoreBusyError, StoreUnavailableError):
            continue


def _batch(pointers: PointerStore, ops: Sequence[Op]) -> Outcome:
    return _while_busy(partial(pointers.batch, ops))


def _append(outcomes: list[Outcome], pointers: PointerStore, ops: Sequence[Op]) -> None:
    outcomes.append(_batch(pointers, ops))
