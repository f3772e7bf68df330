"""The documents of a sink's proof, as `datarecs sink proof` prints them."""

from collections.abc import Mapping
from datetime import timedelta

from datarecs_cli.client import Json
from datarecs_cli.invocation import UsageFault
from datarecs_cli.output import as_yaml
from datarecs_core.hashing import JsonValue
from datarecs_core.jobs.definition import ReconciliationJob
from datarecs_core.notation import parse_duration
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Kind
from datarecs_core.scheduling.schedule import Schedule
from datarecs_core.sink.definition import SinkMode, SinkTable
from datarecs_core.sink.proof import (
    ProofOptions,
    proof_job,
    proof_name,
    proof_obstacle,
    proof_schedule,
)
from datarecs_specs.documents import decode_json, decode_stored
from datarecs_specs.kinds import KINDS

_LEAST_WINDOW = timedelta(minutes=1)


def proof_documents(resource: Json, options: ProofOptions) -> list[Mapping[str, JsonValue]]:
    """The job, and the schedule where the options have times, for `apply`.

    Raises UsageFault for a sink that no job can prove, and for times that no schedule can have.
    """
    metadata, spec = resource["metadata"], resource["spec"]
    if not isinstance(metadata, Mapping) or not isinstance(spec, Mapping):
        raise TypeError("a resource has metadata and a spec")
    name = str(metadata["name"])
    sink = decode_stored(Kind.SINK_TABLE, name, spec)
    if not isinstance(sink, SinkTable):
        raise TypeError("a SinkTable is stored under its kind")
    obstacle = proof_obstacle(sink)
    if obstacle is not None:
        raise UsageFault(f"the sink {name} cannot be proven: {obstacle}")
    if options.window is not None and sink.mode is not SinkMode.APPEND:
        raise UsageFault(
            f"--window: a row of the sink {name} has the last record of its key, of any age; leave "
            "it out"
        )
    namespace = str(metadata.get("namespace", DEFAULT_NAMESPACE))
    made = [_document(Kind.RECONCILIATION_JOB, name, namespace, proof_job(name, sink, options))]
    if options.cron is not None:
        made.append(_document(Kind.SCHEDULE, name, namespace, proof_schedule(name, options)))
    return made


def window_of(text: str) -> timedelta:
    """Raises UsageFault."""
    window = parse_duration(text)
    if window is None or window < _LEAST_WINDOW:
        raise UsageFault(f"--window {text} is no duration of a minute or more, such as P7D or PT6H")
    return window


def yaml_of(documents: list[Mapping[str, JsonValue]]) -> str:
    return "\n---\n".join(as_yaml(document).rstrip("\n") for document in documents)


def _document(
    kind: Kind, sink: str, namespace: str, spec: ReconciliationJob | Schedule
) -> Mapping[str, JsonValue]:
    document: dict[str, JsonValue] = {
        "apiVersion": "datarecs.io/v1",
        "kind": str(kind),
        "metadata": {
            "name": proof_name(sink),
            **({} if namespace == DEFAULT_NAMESPACE else {"namespace": namespace}),
        },
        "spec": KINDS[kind].shape.write(spec, minimal=True),
    }
    decoded = decode_json(document)
    if decoded.faults:
        raise UsageFault("; ".join(fault.message for fault in decoded.faults))
    return document
