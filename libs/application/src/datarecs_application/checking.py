"""What a check needs from the platform, and what its child may report.

The worker resolves secrets as for a run; the child opens the sources and has no access to the
platform. It reads the data of strangers, so each of its frames is untrusted: names must be those of
the check, texts are bounded, and values of secrets are masked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from datarecs_application.assignments import Decode, stored_json
from datarecs_application.child_frames import FINISHED, BadFrameError, Reader
from datarecs_application.ports.outside import SecretStore
from datarecs_application.ports.state import Transaction
from datarecs_application.source_checks import fault_text
from datarecs_application.source_secrets import masked, one_line, resolved_secrets
from datarecs_core.documents import to_document
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.faults import Fault
from datarecs_core.hashing import JsonValue, canonical_json, sha256_hex
from datarecs_core.jobs.definition import Parameter, ReconciliationJob
from datarecs_core.jobs.parameters import parameters_document, resolve_parameters
from datarecs_core.jobs.vocabulary import ParameterType
from datarecs_core.resources.checks import (
    Cause,
    CheckResult,
    CheckStep,
    StepState,
    cause_of,
    failed_step,
    known_code,
)
from datarecs_core.resources.connection import Connection, connection_faults
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Kind, Resource
from datarecs_core.values import TenantId

OPENING, STEP = "opening", "step"
"""Types of the child's frames, besides FINISHED."""
MOST_STEPS, MOST_TEXT, MOST_NAME = 500, 400, 80
_SAMPLES: Mapping[ParameterType, str] = {
    ParameterType.TEXT: "",
    ParameterType.INT: "0",
    ParameterType.DECIMAL: "0",
    ParameterType.DATE: "2000-01-01",
    ParameterType.TIMESTAMP: "2000-01-01T00:00:00Z",
    ParameterType.BOOL: "false",
}
"""Values of parameters without default: types do not depend on them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckAssignment:
    """One check, ready for its child."""

    frame: Mapping[str, JsonValue] = field(repr=False)
    """Declarations and secrets; it goes through the pipe and into no file."""
    sources: tuple[str, ...]
    """Names that its steps may have."""
    secrets: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checking:
    """What checks need from outside."""

    decode: Decode
    secrets: SecretStore
    surroundings: Mapping[str, JsonValue]
    """Roots, egress policy and excluded places, as for a run."""

    def assign(self, tx: Transaction, resource: Resource) -> CheckAssignment | CheckResult:
        """The check of a connection or job; its result if no source can be opened."""
        try:
            if resource.kind is Kind.CONNECTION:
                connection = self.decode.connection(resource.name, resource.spec)
                return self._assigned(tx, resource, {resource.name: connection}, None)
            job = self.decode.job(resource.name, resource.spec)
            connections = self._connections(tx, job)
        except DatarecsError as error:  # stored by another version
            step = replace(_refused("", "declaration", error), cause=Cause.DECLARATION)
            return CheckResult(steps=(step,))
        known = {name: connection.type for name, connection in connections.items()}
        if faults := connection_faults(job, known):
            return CheckResult(steps=tuple(_fault_step(job, fault) for fault in faults))
        return self._assigned(tx, resource, connections, job)

    def readable_connection(self, resource: Resource) -> Connection | None:
        """The typed spec; None for another kind, or for one that this release cannot read."""
        if resource.kind is not Kind.CONNECTION:
            return None
        try:
            return self.decode.connection(resource.name, resource.spec)
        except DatarecsError:
            return None

    def fingerprint(self, tenant: TenantId, connection: Connection) -> str:
        """A hash of the secrets of a connection as they are now, or of why they cannot be read."""
        values, failures = resolved_secrets(self.secrets, tenant, {"": connection})
        faults = {name: error.code.name for name, error in failures.items()}
        return sha256_hex(canonical_json({"values": dict(values), "faults": dict(faults)}))

    def _connections(self, tx: Transaction, job: ReconciliationJob) -> dict[str, Connection]:
        """As a run finds them: those that exist and can be read, in the default namespace."""
        connections = {}
        for name in dict.fromkeys(source.connection for source in job.sources):
            resource = name and tx.resources.get(Kind.CONNECTION, DEFAULT_NAMESPACE, name)
            if name and resource:
                connections[name] = self.decode.connection(name, resource.spec)
        return connections

    def _assigned(
        self,
        tx: Transaction,
        resource: Resource,
        connections: Mapping[str, Connection],
        job: ReconciliationJob | None,
    ) -> CheckAssignment | CheckResult:
        secrets, failures = resolved_secrets(self.secrets, tx.tenant_id, connections)
        if failures:
            return CheckResult(steps=tuple(_named(failures, job)))
        frame: dict[str, JsonValue] = {
            **self.surroundings,
            "tenant_id": str(tx.tenant_id),
            "name": resource.name,
            "connections": {name: to_document(one) for name, one in connections.items()},
            "secrets": dict(secrets),
        }
        names: tuple[str, ...] = (resource.name,)
        if job is not None:
            names = tuple(source.name for source in job.sources)
            frame |= {
                "spec": stored_json(resource.spec),
                "spec_hash": resource.spec_hash,
                "job_id": str(resource.uid),
                "parameters": stored_json(sample_parameters(job, tx.now)),
            }
        return CheckAssignment(frame=frame, sources=(*names, ""), secrets=tuple(secrets.values()))


def _named(failures: Mapping[str, DatarecsError], job: ReconciliationJob | None) -> list[CheckStep]:
    """A step for each source of a job, or for the connection itself."""
    if job is None:
        return [_refused(name, "secret", error) for name, error in failures.items()]
    return [
        _refused(source.name, "secret", failures[source.connection])
        for source in job.sources
        if source.connection is not None and source.connection in failures
    ]


def _refused(source: str, name: str, error: DatarecsError) -> CheckStep:
    return failed_step(source, name, error.code, one_line(str(error), MOST_TEXT))


def _fault_step(job: ReconciliationJob, fault: Fault) -> CheckStep:
    index = next((part for part in fault.path if isinstance(part, int)), 0)
    return failed_step(job.sources[index].name, "connection", fault.code, fault_text(fault))


def sample_parameters(job: ReconciliationJob, now: datetime) -> Mapping[str, object]:
    """Defaults as a run would have them now, and a sample where there is none."""
    samples = {
        name: _sample(parameter)
        for name, parameter in job.parameters.items()
        if parameter.default is None
    }
    zone = ZoneInfo(job.timezone)
    values, _ = resolve_parameters(job.parameters, samples, moment=now.astimezone(UTC), zone=zone)
    return parameters_document(values)


def _sample(parameter: Parameter) -> object:
    return parameter.allowed[0] if parameter.allowed else _SAMPLES[parameter.type]


@dataclass(slots=True)
class ReportedSteps:
    """The frames of one child, read as they arrive."""

    assignment: CheckAssignment
    steps: list[CheckStep] = field(default_factory=list)
    source: str = ""
    """The source that the child opens now."""

    def take(self, frame: Mapping[str, object]) -> bool:
        """Read one frame; whether the check has ended.

        Raises:
            BadFrameError: a correct child never sends it.
        """
        reader = Reader(frame)
        kind = reader.of("type", str)
        if kind == FINISHED:
            return True
        if kind == OPENING:
            self.source = self._source(reader)
            return False
        if kind != STEP or len(self.steps) >= MOST_STEPS:
            raise BadFrameError("a frame that does not belong to a check")
        self.steps.append(self._step(reader))
        return False

    def _source(self, reader: Reader) -> str:
        source = reader.of("source", str)
        if source not in self.assignment.sources:
            raise BadFrameError("a source that is not checked")
        return source

    def _step(self, reader: Reader) -> CheckStep:
        is_ok = reader.of("ok", bool)
        code = None if is_ok else known_code(reader.maybe("code", str))
        refused = reader.of("login_refused", bool)
        return CheckStep(
            source=self._source(reader),
            name=one_line(self._masked(reader.of("name", str)), MOST_NAME),
            state=StepState.OK if is_ok else StepState.FAIL,
            ms=max(reader.of("ms", int), 0),
            seen=one_line(self._masked(reader.of("detail", str)), MOST_TEXT),
            code=None if code is None else code.name,
            cause=None if is_ok else cause_of(code, login_refused=refused),
            fix=None if code is None else code.entry.remedy,
        )

    def _masked(self, text: str) -> str:
        return masked(text, self.assignment.secrets)

    def result(self) -> CheckResult:
        return CheckResult(steps=tuple(self.steps))

    def unfinished(self, why: str, fix: str) -> CheckResult:
        """The steps so far, and why there are no more of them."""
        return CheckResult(steps=(*self.steps, unfinished_step(self.source, why, fix)))


def unfinished_step(source: str, why: str, fix: str) -> CheckStep:
    """A check that did not end says nothing about its sources."""
    return CheckStep(
        source=source,
        name="check",
        state=StepState.FAIL,
        seen=why,
        cause=Cause.CHECK,
        fix=fix,
    )
