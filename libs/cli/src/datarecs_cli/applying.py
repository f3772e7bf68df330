"""Sends declarations to the server: which ones, in which order, and the outcome of each.

`apply`, `run FILE` and `demo` share it. They send nothing while one file has a fault, and
then send an object before the objects that refer to it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from datarecs_cli.client import Api, ApiRequest, Json, path_of
from datarecs_cli.declared_files import check_files, in_apply_order, refuse_faults
from datarecs_cli.invocation import Invocation
from datarecs_cli.refusals import RefusedError
from datarecs_core.resources.declared import Declared
from datarecs_core.resources.resource import API_VERSION
from datarecs_specs.kinds import KINDS, KindEntry

_STOPPING = frozenset({401, 403, 429})
"""Refusals that hold for all objects, so that sending stops."""
_SERVER_FAULT = 500


class Outcome(StrEnum):
    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"
    PRUNED = "pruned"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The outcome of one object."""

    name: str
    """Such as `job/ledger-vs-exports`."""
    outcome: Outcome
    secret: str | None = None
    """A new signing secret; the server never shows it again."""
    refusal: RefusedError | None = None
    changes: tuple[str, ...] = ()
    """Differences field by field, for an object that was only compared, or what it waits for."""


def shown_name(entry: KindEntry, name: str) -> str:
    return f"{entry.singular}/{name}"


def check_for_server(paths: Sequence[str], invocation: Invocation) -> tuple[Declared, ...]:
    """The objects to send, in order; none if a file has a fault, and then all faults are printed.

    Raises:
        UsageFault: a path does not exist.
    """
    files = check_files(paths, on_server=True)
    if refuse_faults(files, invocation):
        return ()
    documents = in_apply_order(files)
    return tuple(one.declared for one in documents if one.declared is not None)


def apply_each(api: Api, declared: Sequence[Declared]) -> Iterator[Applied]:
    """Create or replace one object after the other; after a refusal the next is still sent.

    Raises:
        RefusedError: the key has no permission, or the server cannot serve requests.
        ServerUnreachableError: no answer.
    """
    for one in declared:
        entry = KINDS[one.kind]
        name = shown_name(entry, one.name)
        body = send_or_refusal(api, _put(entry, one))
        if isinstance(body, RefusedError):
            yield Applied(name=name, outcome=Outcome.FAILED, refusal=body)
            continue
        secret = body.get("generated_secret")
        yield Applied(
            name=name,
            outcome=Outcome(str(body.get("outcome", Outcome.CONFIGURED))),
            secret=secret if isinstance(secret, str) else None,
            changes=waits_of(body),
        )


def waits_of(body: Json) -> tuple[str, ...]:
    """A line about an object that is deleted later; an apply does not end its deletion."""
    metadata = body.get("metadata")
    if isinstance(metadata, Mapping) and metadata.get("deletionTimestamp"):
        return ("it is being deleted; datarecs describe shows what it waits for",)
    return ()


def compare_each(api: Api, declared: Sequence[Declared]) -> Iterator[Applied]:
    """What `apply_each` would do, as the server answers; writes nothing.

    Raises:
        RefusedError, ServerUnreachableError: as for `apply_each`.
    """
    for one in declared:
        entry = KINDS[one.kind]
        name = shown_name(entry, one.name)
        stored = _stored(api, entry, one)
        body = send_or_refusal(api, _put(entry, one, dry_run="true"))
        if isinstance(body, RefusedError):
            yield Applied(name=name, outcome=Outcome.FAILED, refusal=body)
            continue
        changes = () if stored is None else tuple(_changes(stored, body))
        yield Applied(name=name, outcome=Outcome(str(body["outcome"])), changes=changes)


def send_or_refusal(api: Api, request: ApiRequest) -> Json | RefusedError:
    """The answer, or the refusal if it concerns this object alone."""
    try:
        return api.send(request).json()
    except RefusedError as refused:
        if refused.status in _STOPPING or refused.status >= _SERVER_FAULT:
            raise
        return refused


def _put(entry: KindEntry, declared: Declared, **further: str) -> ApiRequest:
    return ApiRequest(
        method="PUT",
        path=path_of(entry.path, declared.name),
        params={"namespace": declared.namespace, "apply": "true", **further},
        headers={"If-Match": "*"},
        body=document_of(declared),
    )


def document_of(declared: Declared) -> Json:
    """The declaration as a body of the API."""
    return {
        "apiVersion": API_VERSION,
        "kind": declared.kind.value,
        "metadata": {
            "name": declared.name,
            "namespace": declared.namespace,
            "labels": dict(declared.labels),
            "annotations": dict(declared.annotations),
            "finalizers": list(declared.finalizers),
        },
        "spec": declared.spec,
    }


def _stored(api: Api, entry: KindEntry, declared: Declared) -> Json | None:
    try:
        return api.get(entry.path, declared.name, namespace=declared.namespace)
    except RefusedError as refused:
        if refused.status == 404:  # noqa: PLR2004  it does not exist yet
            return None
        raise


def _changes(stored: Json, wanted: Json) -> Iterator[str]:
    """Fields of the declaration that would differ."""
    yield from differences(stored.get("spec"), wanted.get("spec"), "spec")
    for member in ("labels", "annotations", "finalizers"):
        pair = [_metadata(one).get(member) for one in (stored, wanted)]
        yield from differences(pair[0], pair[1], f"metadata.{member}")


def _metadata(resource: Json) -> Json:
    metadata = resource.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def differences(held: object, wanted: object, path: str) -> Iterator[str]:
    """`~ spec.stages[0].name: "a" -> "b"` for every field that differs."""
    match held, wanted:
        case Mapping(), Mapping():
            for name in sorted({*held, *wanted}):
                yield from differences(held.get(name), wanted.get(name), f"{path}.{name}")
        case ((list() | tuple()), (list() | tuple())):
            for index in range(max(len(held), len(wanted))):
                pair = [side[index] if index < len(side) else None for side in (held, wanted)]
                yield from differences(pair[0], pair[1], f"{path}[{index}]")
        case _ if held != wanted:
            yield f"~ {path}: {json.dumps(held)} -> {json.dumps(wanted)}"
