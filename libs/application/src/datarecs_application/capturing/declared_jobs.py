"""The jobs of declared captures: how one enters the queue, and what a deletion does to it.

Separate from the controller, because the use cases of declared objects need the second part.
"""

from collections.abc import Mapping

from datarecs_application.capturing import queue
from datarecs_application.ports.state import Transaction
from datarecs_core.captures.declared import LAST_CAPTURE, CaptureStart, last_capture
from datarecs_core.errors.captures import CaptureEndedError
from datarecs_core.resources.resource import Kind, Resource


def requester(capture: Resource) -> str:
    """Who requested the jobs of a declared capture."""
    return f"{capture.kind} {capture.namespace}/{capture.name}"


def start_capture(
    tx: Transaction, start: CaptureStart, status: Mapping[str, object]
) -> Mapping[str, object]:
    """Add the capture to the queue; the status with the id of its job.

    An equal capture that has not ended is followed instead, whoever started it.
    """
    added = queue.add_root(tx, start.request, item_id=start.job_id, requested_by=start.requested_by)
    last = status.get(LAST_CAPTURE)
    written = last if isinstance(last, Mapping) else {}
    return {**status, LAST_CAPTURE: {**written, "job_id": str(added.id)}}


def cancel_captures(tx: Transaction, resource: Resource, *, by: str) -> None:
    """Cancel the running job of a Capture that is deleted; one that a person started goes on."""
    last = last_capture(resource.status) if resource.kind is Kind.CAPTURE else None
    job = None if last is None else tx.capture_work.get(last.job_id)
    if job is None or job.has_ended or job.requested_by != requester(resource):
        return
    try:
        queue.cancel(tx, job.id, by=by, reason=f"{requester(resource)} was deleted")
    except CaptureEndedError:  # meanwhile
        return
