"""Names of executions: one per run, valid everywhere."""

import re
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.runs.naming import base32, execution_name
from datarecs_core.values import JobId, RunId


@given(st.uuids(), st.uuids())
def test_an_execution_name_is_a_dns_label_of_59_characters(job: UUID, run: UUID) -> None:
    name = execution_name(JobId(job), RunId(run))
    assert len(name) == 59
    assert re.fullmatch(r"recon-[0-9a-hjkmnp-tv-z]{26}-[0-9a-hjkmnp-tv-z]{26}", name)


@given(st.uuids(), st.uuids())
def test_base_32_preserves_order_and_identity(one: UUID, other: UUID) -> None:
    assert (base32(one) < base32(other)) is (one < other)
    assert (base32(one) == base32(other)) is (one == other)


def test_base_32_of_known_ids() -> None:
    assert base32(UUID(int=0)) == "0" * 26
    assert base32(UUID(int=2**128 - 1)) == "7" + "z" * 25
    assert base32(UUID(int=32)) == "0" * 24 + "10"
