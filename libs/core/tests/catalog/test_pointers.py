"""The rule of batches, against a model; backends run it in the suite of Pointers."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.catalog.pointers import (
    Applied,
    Bump,
    Check,
    CheckPresent,
    Delete,
    Op,
    Pointer,
    Rejected,
    Upsert,
    apply_batch,
    check_batch,
    position_of,
    token_after,
)
from datarecs_core.errors.catalogue import PointerRefusedError
from datarecs_core.values import TenantId

TENANT = TenantId(UUID("019b0000-0000-7000-8000-000000000001"))
KEYS = [f"/accounts/{TENANT}/{name}" for name in "abcd"]
keys = st.sampled_from(KEYS)
versions = st.integers(1, 3)


def operations(key: str) -> st.SearchStrategy[Op]:
    return st.one_of(
        st.builds(lambda v: Upsert(next=Pointer(key=key), expected=v), st.integers(0, 3)),
        st.builds(lambda v: Delete(key=key, expected=v), versions),
        st.builds(lambda v: Check(key=key, expected=v), st.integers(0, 3)),
        st.just(CheckPresent(key=key)),
        st.just(Bump(key=key)),
    )


batches = st.lists(keys, unique=True).flatmap(
    lambda chosen: st.tuples(*(operations(key) for key in chosen))
)
stored = st.dictionaries(keys, versions).map(
    lambda rows: {key: Pointer(key=key, version=version) for key, version in rows.items()}
)


@pytest.mark.case("S03")
@given(rows=stored, ops=batches)
def test_a_batch_changes_all_or_nothing_and_each_change_raises_a_version_by_one(
    rows: dict[str, Pointer], ops: tuple[Op, ...]
) -> None:
    check_batch(ops, TENANT)
    outcome, changes = apply_batch(rows, ops)
    if isinstance(outcome, Rejected):
        assert (changes.stored, changes.deleted) == ((), ())
        assert not isinstance(apply_batch(rows, [ops[outcome.index]])[0], Applied)
        return
    assert all(isinstance(apply_batch(rows, [op])[0], Applied) for op in ops)
    for pointer in changes.stored:
        before = rows.get(pointer.key)
        assert pointer.version == (before.version if before else 0) + 1
        assert outcome.versions[pointer.key] == pointer.version
    assert set(changes.deleted) <= rows.keys()
    assert not set(changes.deleted) & outcome.versions.keys()


@pytest.mark.case("S10")
@given(prefix=st.text(), rest=st.text(), other=st.text())
def test_a_token_belongs_to_one_list(prefix: str, rest: str, other: str) -> None:
    token = token_after(prefix, prefix + rest)
    assert position_of(prefix, token) == prefix + rest
    if other != prefix:
        with pytest.raises(PointerRefusedError):
            position_of(other, token)


@pytest.mark.case("S10")
@given(st.text())
def test_any_text_is_a_token_of_the_list_or_refused(text: str) -> None:
    try:
        position = position_of("/a/", text)
    except PointerRefusedError:
        return
    assert token_after("/a/", position) == text
