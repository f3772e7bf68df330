from uuid import UUID

import pytest

from datarecs_core.notifications.identity import (
    dedupe_key,
    message_id,
    recipient_hash,
    thread_root,
)
from datarecs_core.values import JobId, RunId, TenantId

TENANT = TenantId(UUID("019b0000-0000-7000-8000-000000000001"))
RUN = RunId(UUID("019bc0ef-2a10-7d44-9b6f-0c1d2e3f4a5b"))
JOB = JobId(UUID("019ba000-0000-7000-8000-00000000000a"))
ANA = "ana.lopez@example.com"


@pytest.mark.case("M19")
def test_the_message_id_vector_is_reproduced() -> None:
    assert message_id(TENANT, RUN, ANA, mail_domain="mail.example.com") == (
        f"<run.{RUN}.f3kmq3bzdmu4jppuskrcefpbzq@mail.example.com>"
    )
    assert thread_root(TENANT, JOB, ANA, mail_domain="mail.example.com") == (
        f"<job.{JOB}.dkpogtxwnvnzthgtpvb32ycftl@mail.example.com>"
    )


def test_the_dedupe_key_names_run_and_recipient() -> None:
    assert dedupe_key(RUN, ANA) == f"run:{RUN}:{ANA}"


def test_events_get_a_hash_that_differs_between_tenants() -> None:
    other = TenantId(UUID(int=2))
    assert recipient_hash(TENANT, ANA) != recipient_hash(other, ANA)
    assert ANA not in recipient_hash(TENANT, ANA)
