"""The audit chain: any change of any row is detected, and named by its number."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from datarecs_core.access.audit import (
    FIRST_PREV_HASH,
    AuditRow,
    ChainedRow,
    audit_hash,
    first_broken,
)
from datarecs_core.values import TenantId

NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)


def a_row(**changes: object) -> AuditRow:
    row = AuditRow(
        tenant_id=TenantId(UUID(int=1)),
        seq=1,
        at=NOON,
        actor="u-1",
        actor_kind="key",
        action="resource.write",
        resource_kind="Connection",
        resource_uid="uid",
        before_sha256=None,
        after_sha256=bytes(32),
        request_id="r",
        address="192.0.2.7",
        outcome="ok",
        detail={"changed": ["spec"]},
    )
    return replace(row, **changes)  # type: ignore[arg-type]  # any field, named by the test


def a_chain(length: int) -> list[ChainedRow]:
    links: list[ChainedRow] = []
    before = FIRST_PREV_HASH
    for number in range(1, length + 1):
        row = a_row(seq=number)
        links.append(ChainedRow(row=row, prev_hash=before, hash=audit_hash(row, before)))
        before = links[-1].hash
    return links


def test_an_untouched_chain_is_sound() -> None:
    assert first_broken(a_chain(3)) is None
    assert first_broken([]) is None


@pytest.mark.parametrize(
    "change",
    [
        {"actor": "u-2"},
        {"at": NOON + timedelta(microseconds=1)},
        {"tenant_id": TenantId(UUID(int=2))},
        {"before_sha256": bytes(32)},
        {"after_sha256": None},
        {"detail": None},
        {"outcome": "refused"},
    ],
)
@pytest.mark.case("X76")
def test_a_changed_row_is_named(change: dict[str, object]) -> None:
    chain = a_chain(3)
    chain[1] = replace(chain[1], row=replace(chain[1].row, **change))  # type: ignore[arg-type]  # any field
    assert first_broken(chain) == 2


@pytest.mark.parametrize("gone", [0, 1])
def test_a_missing_row_is_named(gone: int) -> None:
    chain = a_chain(3)
    del chain[gone]
    assert first_broken(chain) == gone + 1


def test_a_row_hashed_anew_breaks_the_one_behind_it() -> None:
    chain = a_chain(3)
    altered = a_row(seq=1, actor="u-2")
    forged = audit_hash(altered, FIRST_PREV_HASH)
    chain[0] = ChainedRow(row=altered, prev_hash=FIRST_PREV_HASH, hash=forged)
    assert first_broken(chain) == 2


def test_two_rows_that_changed_places_are_detected() -> None:
    one, two, three = a_chain(3)
    assert first_broken([two, one, three]) == 1
