"""Conformance suites of IdempotencyKeys, ApiKeys and Audit."""

from dataclasses import replace
from datetime import timedelta

import pytest

from datarecs_application.ports.keys import ApiKey
from datarecs_application.ports.state import AuditEntry, KeyUse, StoredAnswer, Transaction
from datarecs_testing.builders import A_TENANT, B_TENANT, NOON, an_api_key
from datarecs_testing.conformance.stores import Stores, carry_out

ANSWER = StoredAnswer(status=202, headers={"Location": "/api/v1/runs/1"}, body=b'{"id":1}')
REQUEST = {"principal": "u-7f3", "route": "POST /jobs/{name}/runs", "key": "k-1"}


def take(tx: Transaction, *, body: bytes = b"a", **other: str) -> tuple[KeyUse, object]:
    return tx.idempotency.take(request_hash=32 * body, **{**REQUEST, **other})


def answered(stores: Stores) -> None:
    with stores.api.unit.begin(A_TENANT) as tx:
        take(tx)
        tx.idempotency.store(answer=ANSWER, **REQUEST)


class IdempotencyKeysConformance:
    def test_the_first_use_is_new(self, stores: Stores) -> None:
        with stores.api.unit.begin(A_TENANT) as tx:
            assert take(tx) == (KeyUse.NEW, None)

    @pytest.mark.case("L07")
    def test_a_repeated_request_gets_the_first_answer(self, stores: Stores) -> None:
        answered(stores)
        with stores.api.unit.begin(A_TENANT) as tx:
            assert take(tx) == (KeyUse.REPLAY, ANSWER)

    @pytest.mark.case("L07")
    def test_the_key_with_another_body_does_not_match(self, stores: Stores) -> None:
        answered(stores)
        with stores.api.unit.begin(A_TENANT) as tx:
            assert take(tx, body=b"b") == (KeyUse.MISMATCH, None)

    def test_a_key_goes_with_a_rollback(self, stores: Stores) -> None:
        def fail(tx: Transaction) -> None:
            take(tx)
            tx.idempotency.store(answer=ANSWER, **REQUEST)
            raise RuntimeError

        with pytest.raises(RuntimeError):
            carry_out(stores.api.unit, A_TENANT, fail)
        with stores.api.unit.begin(A_TENANT) as tx:
            assert take(tx) == (KeyUse.NEW, None)

    def test_a_key_without_an_answer_is_taken_again(self, stores: Stores) -> None:
        for _ in range(2):
            with stores.api.unit.begin(A_TENANT) as tx:
                assert take(tx) == (KeyUse.NEW, None)

    def test_a_key_is_forgotten_after_a_day(self, stores: Stores) -> None:
        answered(stores)
        stores.pass_time(timedelta(hours=24, seconds=1))
        with stores.api.unit.begin(A_TENANT) as tx:
            assert take(tx, body=b"b") == (KeyUse.NEW, None)

    @pytest.mark.case("X03")
    def test_keys_are_separate_per_tenant_principal_and_route(self, stores: Stores) -> None:
        answered(stores)
        with stores.api.unit.begin(B_TENANT) as tx:
            assert take(tx) == (KeyUse.NEW, None)
        with stores.api.unit.begin(A_TENANT) as tx:
            assert take(tx, principal="another") == (KeyUse.NEW, None)
            assert take(tx, route="POST /keys") == (KeyUse.NEW, None)


class ApiKeysConformance:
    def test_keys_are_listed_newest_first(self, stores: Stores) -> None:
        old = an_api_key(owner="u-1")
        new = an_api_key(owner="u-2", created_at=NOON + timedelta(days=1), parent_id=old.key_id)
        with stores.api.unit.begin(A_TENANT) as tx:
            tx.api_keys.add(old)
            tx.api_keys.add(new)
            assert tx.api_keys.all() == [new, old]
            assert tx.api_keys.for_update(new.key_id) == new

    def test_a_family_is_a_key_and_all_that_was_made_with_it(self, stores: Stores) -> None:
        (root, child, grandchild), other = a_family(), an_api_key()
        with stores.api.unit.begin(A_TENANT) as tx:
            for key in (root, child, grandchild, other):
                tx.api_keys.add(key)
            assert set(tx.api_keys.family(root.key_id)) == {root, child, grandchild}
            assert set(tx.api_keys.family(child.key_id)) == {child, grandchild}
            assert tx.api_keys.family(other.key_id) == [other]
            assert tx.api_keys.family("nobodyskey22") == []

    def test_a_family_is_revoked_together(self, stores: Stores) -> None:
        (root, child, grandchild), other = a_family(), an_api_key()
        with stores.api.unit.begin(A_TENANT) as tx:
            for key in (root, child, grandchild, other):
                tx.api_keys.add(key)
        with stores.api.unit.begin(A_TENANT) as tx:
            assert set(tx.api_keys.revoke(child.key_id)) == {child.key_id, grandchild.key_id}
        with stores.api.unit.begin(A_TENANT) as tx:
            assert tx.api_keys.revoke(root.key_id) == (root.key_id,)
            good = [key for key in tx.api_keys.all() if key.revoked_at is None]
        assert good == [other]

    def test_a_second_revocation_changes_nothing(self, stores: Stores) -> None:
        key = an_api_key()
        with stores.api.unit.begin(A_TENANT) as tx:
            tx.api_keys.add(key)
        revoked = []
        for expected in ((key.key_id,), ()):
            with stores.api.unit.begin(A_TENANT) as tx:
                assert tx.api_keys.revoke(key.key_id) == expected
                revoked += tx.api_keys.all()
        first, second = revoked
        assert first.revoked_at is not None
        assert second == first == replace(key, revoked_at=first.revoked_at)

    def test_an_unknown_key_is_not_revoked(self, stores: Stores) -> None:
        with stores.api.unit.begin(A_TENANT) as tx:
            assert tx.api_keys.revoke("nobodyskey22") == ()
            assert tx.api_keys.for_update("nobodyskey22") is None


def a_family() -> tuple[ApiKey, ApiKey, ApiKey]:
    """A key, one made with it, and one made with that."""
    root = an_api_key()
    child = an_api_key(parent_id=root.key_id)
    return root, child, an_api_key(parent_id=child.key_id)


class AuditConformance:
    def test_deeds_are_chained(self, stores: Stores) -> None:
        entry = AuditEntry(actor="u-1", actor_kind="key", action="resource.write")
        with stores.api.unit.begin(A_TENANT) as tx:
            tx.audit.append(entry)
            tx.audit.append(replace(entry, detail={"n": [1, "größe", None]}))
        with stores.api.unit.begin(A_TENANT) as tx:
            tx.audit.append(replace(entry, before_sha256=bytes(32), after_sha256=bytes(32)))

    def test_a_deed_goes_with_a_rollback(self, stores: Stores) -> None:
        entry = AuditEntry(actor="u-1", actor_kind="key", action="resource.write")

        def fail(tx: Transaction) -> None:
            tx.audit.append(entry)
            raise RuntimeError

        with pytest.raises(RuntimeError):
            carry_out(stores.api.unit, A_TENANT, fail)
        with stores.api.unit.begin(A_TENANT) as tx:
            tx.audit.append(entry)
