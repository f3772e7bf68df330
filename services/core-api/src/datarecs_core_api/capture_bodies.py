"""Bodies of requests about captures, and the wait for the end of one.

The body of a start is read by the shape that declarations have, so both have the same faults.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from fastapi import Request
from pydantic import ConfigDict
from starlette.concurrency import run_in_threadpool

from datarecs_core.captures.document import CaptureDocument
from datarecs_core.captures.items import CaptureJobId, WorkItem
from datarecs_core.values import TenantId
from datarecs_core_api.body import JSON, canonical, parse_object, read_bytes
from datarecs_core_api.dependencies import Ports
from datarecs_core_api.failures import spec_faults
from datarecs_core_api.inputs import In, ShortText
from datarecs_core_api.problems import invalid
from datarecs_specs.capture_shape import CAPTURE, capture_of

SCHEMA_NAME = "CaptureIn"
CAPTURE_EXAMPLE: Mapping[str, object] = {
    "connection": "lake",
    "mode": "METADATA_AND_CAPTURE",
    "scope": {"tables": ["default.orders"]},
    "outputs": ["TABLE_STATS", "COLUMN_STATS", "FILE_STATS"],
    "snapshots": {"select": "CURRENT"},
}
FIRST_PAUSE = timedelta(milliseconds=50)


class CancelCaptureIn(In):
    """Why a capture is to end."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "the wrong tables"}]})

    reason: ShortText | None = None
    """Stored with the job and in the audit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentCapture:
    """A capture that was read, and the form by which a repetition is known."""

    value: CaptureDocument
    canonical: bytes


class CaptureBody:
    """Dependency of a route that takes a capture."""

    def request_body(self) -> Mapping[str, object]:
        """The Request Body Object of OpenAPI."""
        schema = {"$ref": f"#/components/schemas/{SCHEMA_NAME}"}
        return {"required": True, "content": {JSON: {"schema": schema}}}

    async def __call__(self, request: Request) -> SentCapture:
        """Raises ProblemError (422) with every fault of the capture."""
        limit: int = request.app.state.max_body_bytes
        body = parse_object(await read_bytes(request, limit=limit, media=(JSON,)))
        capture, findings = capture_of(body)
        if capture is None:
            raise invalid("the capture has faults", *spec_faults(findings))
        return SentCapture(value=capture, canonical=canonical(body))


def capture_schema() -> Mapping[str, object]:
    """JSON Schema of the body, for the OpenAPI document."""
    return {**CAPTURE.schema(), "title": SCHEMA_NAME, "examples": [CAPTURE_EXAMPLE]}


async def ended_within(
    use: Ports,
    tenant: TenantId,
    job_id: CaptureJobId,
    *,
    limit: timedelta,
    is_gone: Callable[[], Awaitable[bool]],
) -> WorkItem | None:
    """The job when its tree has ended, or as it is when nobody waits any more.

    A connection of the database and a thread are in use for the time of a read only.

    Args:
        use: the stores.
        tenant: of the job.
        job_id: a root; its end is that of its tree.
        limit: of the wait.
        is_gone: whether the client has closed the connection.
    """
    loop, pause = asyncio.get_running_loop(), FIRST_PAUSE
    ends = loop.time() + limit.total_seconds()
    with use.following.watching(str(job_id)) as wake:
        while True:
            job = await run_in_threadpool(_read, use, tenant, job_id)
            left = timedelta(seconds=ends - loop.time())
            is_over = left <= timedelta() or use.following.is_over
            if job is None or job.has_ended or is_over or await is_gone():
                return job
            await wake.arrived(min(pause, left))
            pause = min(2 * pause, use.following.pace.poll)


def _read(use: Ports, tenant: TenantId, job_id: CaptureJobId) -> WorkItem | None:
    with use.unit.begin(tenant, read_only=True) as tx:
        return tx.capture_work.get(job_id)
