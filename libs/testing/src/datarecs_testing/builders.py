"""Values for tests, complete and plausible: `a_run(status=RunStatus.RUNNING)` and its like.

A test sets only the fields that it needs. The fields that a status implies (times, attempt,
outcome) are filled in, so that every built run is valid in the table.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID

from datarecs_application.ports.keys import ApiKey
from datarecs_core.access.tokens import new_key
from datarecs_core.errors.base import RunErrorCode
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Kind, Resource
from datarecs_core.runs.model import Run, RunError, RunResult, RunStatus, Wish
from datarecs_core.runs.naming import execution_name
from datarecs_core.values import JobId, ResourceUid, RunId, TenantId
from datarecs_testing.clock import NOON, FixedIds

__all__ = ["A_TENANT", "B_TENANT", "NOON", "a_resource", "a_run", "an_api_key", "an_id"]

A_TENANT = TenantId(UUID("01900000-0000-7000-8000-00000000000a"))
B_TENANT = TenantId(UUID("01900000-0000-7000-8000-00000000000b"))

_numbers = count(1_000_000)


def an_id() -> UUID:
    """A UUIDv7, different for every call."""
    return FixedIds.nth(next(_numbers))


def a_run(**changes: Any) -> Run:  # noqa: ANN401  any field of Run
    """A run of tenant A that is valid for its status, with the fields of the caller."""
    run_id = RunId(changes.pop("run_id", None) or an_id())
    job_id = JobId(changes.pop("job_id", None) or an_id())
    created_at: datetime = changes.pop("created_at", NOON)
    run = Run(
        tenant_id=A_TENANT,
        run_id=run_id,
        job_id=job_id,
        job_name="ledger-vs-bank",
        job_generation=1,
        spec_hash="sha256:" + 64 * "0",
        spec={"sources": [{"name": "ledger"}, {"name": "bank"}]},
        triggered_by="u-7f3",
        execution_name=execution_name(job_id, run_id),
        created_at=created_at,
        next_reconcile_at=created_at,
    )
    status = RunStatus(changes.get("status", RunStatus.TRIGGERED))
    return replace(run, **{**_implied(status, created_at), **changes})


def _implied(status: RunStatus, created_at: datetime) -> Mapping[str, Any]:
    """The fields of a row with this status."""
    queued: dict[str, Any] = {
        "queued_at": created_at + timedelta(seconds=1),
        "next_reconcile_at": None,
    }
    running = queued | {
        "attempt": 1,
        "started_at": created_at + timedelta(seconds=2),
        "deadline_at": created_at + timedelta(seconds=3602),
    }
    ended: dict[str, Any] = {
        "wish": Wish.STOP,
        "next_reconcile_at": None,
        "ended_at": created_at + timedelta(seconds=30),
        "closed_at": created_at + timedelta(seconds=31),
    }
    error = RunError(code=RunErrorCode.UNKNOWN, message="It did not work.")
    implied: dict[RunStatus, dict[str, Any]] = {
        RunStatus.TRIGGERED: {},
        RunStatus.QUEUED: queued,
        RunStatus.RUNNING: running,
        RunStatus.COMPLETED: running | ended | {"result": RunResult.MATCHED},
        RunStatus.ERRORED: running | ended | {"error": error, "raw_error": error},
        RunStatus.CANCELLED: ended
        | {"cancel_requested": True, "cancelled_by": "u-7f3", "cancel_reason": "Wrong month"},
        RunStatus.QUEUE_ERRORED: ended | {"error": error},
    }
    return implied[status]


def a_resource(**changes: Any) -> Resource:  # noqa: ANN401  any field of Resource
    """A connection of tenant A at its creation; the caller passes `rv`."""
    uid = ResourceUid(changes.pop("uid", None) or an_id())
    connection = Resource(
        tenant_id=A_TENANT,
        uid=uid,
        kind=Kind.CONNECTION,
        namespace=DEFAULT_NAMESPACE,
        name=f"connection-{str(uid)[-6:]}",
        generation=1,
        rv=1,
        spec={"type": "postgres", "config": {"host": "ledger.example.com"}},
        spec_hash="sha256:" + 64 * "1",
        created_at=NOON,
    )
    return replace(connection, **changes)


def an_api_key(**changes: Any) -> ApiKey:  # noqa: ANN401  any field of ApiKey
    """A viewer's key of tenant A, valid for 90 days from NOON."""
    id_bytes = (an_id().int << 4 & 2**64 - 1).to_bytes(8)  # a key id holds the first 60 bits
    made = new_key(id_bytes=id_bytes, secret_bytes=bytes(range(32)))
    key = ApiKey(
        key_id=made.key_id,
        tenant_id=A_TENANT,
        name="a key",
        owner="u-7f3",
        secret_sha256=made.secret_sha256,
        permissions=frozenset({"read"}),
        created_at=NOON,
        expires_at=NOON + timedelta(days=90),
    )
    return replace(key, **changes)
