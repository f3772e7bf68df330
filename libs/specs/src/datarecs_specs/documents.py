"""From text or JSON to declarations, for files, REST bodies and stored specs.

First the shape, then rules over the valid parts, all faults at once; a declaration is returned
only without faults.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from datarecs_core.errors.api import ApiCode
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.faults import Fault, Path
from datarecs_core.errors.spec import SpecCode
from datarecs_core.jobs.definition import ReconciliationJob
from datarecs_core.resources.annotations import annotation_faults
from datarecs_core.resources.connection import Connection
from datarecs_core.resources.declared import Declared
from datarecs_core.resources.resource import Kind
from datarecs_specs.envelope import envelope
from datarecs_specs.findings import Finding, from_text, in_order, located
from datarecs_specs.job_sources import FREE
from datarecs_specs.json_nodes import json_node
from datarecs_specs.kinds import KINDS, Spec, canonical_spec, is_spec, shape_for, spec_hash
from datarecs_specs.nodes import (
    START,
    Document,
    Form,
    MapNode,
    Mark,
    Node,
    Scalar,
)
from datarecs_specs.reading import Reading, Surroundings
from datarecs_specs.shapes import text_of

EDITOR = Surroundings()
"""No server, no operator: the context of `datarecs validate`."""


class InvalidSpecError(DatarecsError):
    """A declaration with faults; `findings` names each with its place."""

    code = ApiCode.INVALID_SPEC

    def __init__(self, *, findings: tuple[Finding, ...]) -> None:
        first = findings[0].sentence if findings else ""
        super().__init__(f"the declaration has {len(findings)} faults; the first: {first}")
        self.findings = findings


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the path of a request determines about its body."""

    kind: Kind
    name: str | None = None
    namespace: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """One document. `declared` and `spec` are there exactly when `faults` is empty."""

    document: int
    declared: Declared | None
    spec: Spec | None
    findings: tuple[Finding, ...]
    reading: Reading = field(default_factory=Reading, compare=False, repr=False)
    root: Mark | None = field(default=None, compare=False, repr=False)

    def with_faults(self, faults: Iterable[Fault]) -> "Decoded":
        """The same document with the faults that need the other documents."""
        further = replace(self.reading, faults=list(faults))
        new_findings = located(further, document=self.document, root=self.root)
        whole = replace(self, findings=in_order((*self.findings, *new_findings)))
        return replace(whole, declared=None, spec=None) if whole.faults else whole

    @property
    def faults(self) -> tuple[Finding, ...]:
        return tuple(one for one in self.findings if not one.warning)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        return tuple(one for one in self.findings if one.warning)

    def require(self) -> tuple[Declared, Spec]:
        """The declaration and its typed spec.

        Raises:
            InvalidSpecError: the document has faults.
        """
        if self.declared is None or self.spec is None:
            raise InvalidSpecError(findings=self.faults)
        return self.declared, self.spec


def decode_yaml(
    data: bytes, *, surroundings: Surroundings = EDITOR, expected: Expected | None = None
) -> tuple[Decoded, ...]:
    """Every document of a file, in order; empty ones are left out. At least one is returned."""
    # Who decodes JSON alone never needs a parser of YAML.
    from datarecs_specs.yaml_source import read_yaml  # noqa: PLC0415 - as above

    documents = [
        one
        for one in read_yaml(data)
        if one.faults or not (one.node is None or _is_empty(one.node))
    ]
    if not documents:
        return (_decode(Document(number=0, node=None, faults=()), surroundings, expected),)
    return tuple(_decode(one, surroundings, expected) for one in documents)


def decode_json(
    body: Mapping[str, object],
    *,
    surroundings: Surroundings = EDITOR,
    expected: Expected | None = None,
) -> Decoded:
    """A parsed JSON object; fractional numbers are Decimals, so that no digit was lost."""
    return _decode(Document(number=0, node=json_node(body), faults=()), surroundings, expected)


def decode_stored(kind: Kind, name: str, spec: Mapping[str, object]) -> Spec:
    """The typed spec of a stored row.

    Raises:
        InvalidSpecError: the row no longer fits the kind, as after an upgrade.
    """
    reading = Reading(surroundings=Surroundings(is_stored=True))
    typed_spec = _spec(kind, name, json_node(spec), reading)
    broken = [fault for fault in reading.faults if not fault.warning]
    # What had no effect when the job was stored has none now.
    if typed_spec is None or any(fault.code is not SpecCode.WITHOUT_EFFECT for fault in broken):
        raise InvalidSpecError(findings=located(reading, document=0, root=None))
    return typed_spec


def job_of(name: str, spec: Mapping[str, object]) -> ReconciliationJob:
    """The job of a stored or frozen spec, as runs carry it.

    Raises:
        InvalidSpecError: as `decode_stored`.
    """
    job = decode_stored(Kind.RECONCILIATION_JOB, name, spec)
    if not isinstance(job, ReconciliationJob):
        raise TypeError("the shape of a job builds jobs")
    return job


class StoredSpecs:
    """Port Decode of the application."""

    def job(self, name: str, spec: Mapping[str, object]) -> ReconciliationJob:
        return job_of(name, spec)

    def connection(self, name: str, spec: Mapping[str, object]) -> Connection:
        connection = decode_stored(Kind.CONNECTION, name, spec)
        if not isinstance(connection, Connection):
            raise TypeError("the shape of a connection builds connections")
        return connection


def _is_empty(node: Node) -> bool:
    return isinstance(node, Scalar) and node.form is Form.NULL


def _spec(kind: Kind, name: str, node: Node, reading: Reading) -> Spec | None:
    at: Path = ("spec",)
    reading.place(at, node)
    built = shape_for(kind, name).read(node, at, reading)
    return _judged(kind, built, reading)


def _judged(kind: Kind, built: Any, reading: Reading) -> Spec | None:  # noqa: ANN401  what a shape built
    """The rules between fields; those that only repeat a fault of shape are left out."""
    if not is_spec(built):
        return None
    broken = {fault.path for fault in reading.faults if not fault.warning}
    count = len(reading.faults)
    KINDS[kind].meaning(built, reading)
    reading.faults[count:] = [
        fault
        for fault in reading.faults[count:]
        if not any(_below(path, broken) for path in (fault.path, *fault.others))
    ]
    spec: Spec = built
    return spec


def _below(path: Path, broken: set[Path]) -> bool:
    return any(path[:length] in broken for length in range(1, len(path) + 1))


def _decode(document: Document, surroundings: Surroundings, expected: Expected | None) -> Decoded:
    reading = Reading(surroundings=surroundings)
    number = document.number
    texts = [from_text(fault, number) for fault in document.faults]
    node = document.node
    root = START if number == 0 else node.mark if node else None
    declared: Declared | None = None
    spec: Spec | None = None
    if node is not None:
        declared, spec = _declared(node, reading, expected)
    elif not texts:
        message = "the file declares nothing; `datarecs init` writes a job for two files"
        reading.fault(Fault(code=SpecCode.MISSING_FIELD, path=(), message=message))
    if _has_no_marks(node):
        root = None
    findings = in_order((*texts, *located(reading, document=number, root=root)))
    if any(not one.warning for one in findings):
        declared, spec = None, None
    return Decoded(
        document=number,
        declared=declared,
        spec=spec,
        findings=findings,
        reading=reading,
        root=root,
    )


def _has_no_marks(node: Node | None) -> bool:
    return node is not None and node.mark is None


def _declared(
    node: Node, reading: Reading, expected: Expected | None
) -> tuple[Declared | None, Spec | None]:
    reading.place((), node)
    kind = _kind_of(node)
    name = _name_of(node)
    shape = FREE if kind is None else shape_for(kind, name)
    known = (str(expected.kind),) if expected else tuple(str(one) for one in Kind)
    whole = envelope(known, shape).read(node, (), reading)
    if not isinstance(whole, Mapping) or kind is None:
        return None, None
    metadata = whole.get("metadata")
    spec = _judged(kind, whole.get("spec"), reading)
    if not isinstance(metadata, Mapping) or spec is None:
        return None, None
    if expected:
        if expected.namespace and _written(node, "namespace") is None:
            metadata = {**metadata, "namespace": expected.namespace}
        _match_path(metadata, expected, reading)
    annotations = metadata.get("annotations")
    if isinstance(annotations, Mapping):
        reading.faults.extend(annotation_faults(kind, annotations))
    if any(not fault.warning for fault in reading.faults):
        return None, None
    return _declaration(kind, spec, metadata), spec


def _kind_of(node: Node) -> Kind | None:
    word = text_of(kind) if isinstance(node, MapNode) and (kind := node.get("kind")) else None
    return Kind(word) if word in set(Kind) else None


def _name_of(node: Node) -> str:
    """The name in the metadata, if it can be read; its shape reports a broken one."""
    name = _written(node, "name")
    return (text_of(name) if name else None) or ""


def _written(node: Node, key: str) -> Node | None:
    """The value of the key in the metadata."""
    metadata = node.get("metadata") if isinstance(node, MapNode) else None
    return metadata.get(key) if isinstance(metadata, MapNode) else None


def _match_path(metadata: Mapping[str, Any], expected: Expected, reading: Reading) -> None:
    for part, wanted in (("name", expected.name), ("namespace", expected.namespace)):
        if wanted is not None and metadata[part] not in {"", wanted}:
            reading.fault(
                Fault(
                    code=SpecCode.BAD_NAME,
                    path=("metadata", part),
                    message=f"the {part} differs from the one in the path",
                )
            )


def _declaration(kind: Kind, spec: Spec, metadata: Mapping[str, Any]) -> Declared:
    return Declared(
        kind=kind,
        name=metadata["name"],
        namespace=metadata["namespace"],
        labels=metadata.get("labels", {}),
        annotations=metadata.get("annotations", {}),
        finalizers=tuple(metadata.get("finalizers", ())),
        spec=canonical_spec(kind, spec),
        spec_hash=spec_hash(kind, spec),
    )
