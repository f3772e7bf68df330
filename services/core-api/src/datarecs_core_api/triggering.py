"""From a job's row and a client's request to the command that creates a run.

Separate from the route because it has rules: parameters typed and defaults evaluated at the
trigger, the deadline within bounds, the current spec stored with the run.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import ConfigDict, Field

from datarecs_application.job_references import start_refusal
from datarecs_application.ports.state import Transaction
from datarecs_core.access.principal import Principal
from datarecs_core.errors.faults import pointer
from datarecs_core.jobs.definition import ReconciliationJob
from datarecs_core.jobs.parameters import parameters_document, resolve_parameters
from datarecs_core.notation import parse_duration
from datarecs_core.resources.refusals import JobNotReadyError
from datarecs_core.resources.resource import Resource
from datarecs_core.runs.model import RunMode
from datarecs_core.runs.start import TriggerRun
from datarecs_core.values import JobId, RunId
from datarecs_core_api.dependencies import Ports
from datarecs_core_api.inputs import WHOLE, In, ShortText
from datarecs_core_api.problems import Fault, input_fault, invalid
from datarecs_specs.documents import job_of

SHORTEST, LONGEST = timedelta(minutes=1), timedelta(hours=24)


class TriggerIn(In):
    """Options of a trigger; all have a default from the job."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "parameters": {"day": "2026-01-31"},
                    "deadline": "PT30M",
                    "priority": 5,
                    "reason": "the books were corrected",
                }
            ]
        }
    )

    parameters: Annotated[dict[str, object], Field(default_factory=dict, max_length=50)]
    """By name; the job declares their types."""
    deadline: Annotated[str, Field(max_length=32)] | None = None
    """ISO 8601, PT1M to PT24H, over all attempts."""
    priority: Annotated[int, Field(ge=0, le=9), WHOLE] | None = None
    """0 to 9; 0 goes first."""
    mode: Literal["IMMEDIATE", "SCHEDULED"] = "IMMEDIATE"
    """SCHEDULED for a run that another scheduler starts; needs the permission `run.schedule`."""
    reason: ShortText | None = None
    """Stored on the run, in `run.triggered` and in the audit."""


def command_of(
    tx: Transaction, job: Resource, wanted: TriggerIn, *, caller: Principal, use: Ports
) -> TriggerRun:
    """The command, if the job can run.

    Raises:
        JobNotReadyError: a connection is missing, or the stored job cannot be read.
        ProblemError: 422 with every bad parameter, or a deadline out of range.
    """
    refusal = start_refusal(tx, job)
    if refusal is not None:
        raise JobNotReadyError(name=job.name, reason=refusal)
    definition = job_of(job.name, job.spec)
    execution = definition.execution
    return TriggerRun(
        tenant_id=caller.tenant_id,
        run_id=RunId(use.ids.new()),
        job_id=JobId(job.uid),
        job_name=job.name,
        job_generation=job.generation,
        spec_hash=job.spec_hash,
        spec=job.spec,
        mode=RunMode(wanted.mode),
        triggered_by=caller.subject,
        reason=wanted.reason,
        parameters=_parameters(tx, definition, wanted.parameters),
        priority=execution.priority if wanted.priority is None else wanted.priority,
        deadline_seconds=int(_deadline(wanted, execution.deadline).total_seconds()),
        max_attempts=execution.attempts,
        backend=use.backend,
    )


def _parameters(
    tx: Transaction, job: ReconciliationJob, arguments: Mapping[str, object]
) -> Mapping[str, object]:
    values, faults = resolve_parameters(
        job.parameters, arguments, moment=tx.now, zone=ZoneInfo(job.timezone)
    )
    if faults:
        api_faults = [
            Fault(
                code=one.code.docs_id,
                pointer=pointer(one.path),
                message=one.message,
                hint=one.hint or None,
            )
            for one in faults
        ]
        raise invalid("parameters of the run have faults", *api_faults)
    return dict(parameters_document(values))


def _deadline(wanted: TriggerIn, default: timedelta) -> timedelta:
    deadline = default if wanted.deadline is None else parse_duration(wanted.deadline)
    if deadline is None or not SHORTEST <= deadline <= LONGEST:
        fault = input_fault("/deadline", "an ISO 8601 duration from PT1M to PT24H")
        raise invalid("the deadline is not allowed", fault)
    return deadline
