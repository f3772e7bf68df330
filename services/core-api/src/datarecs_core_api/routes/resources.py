"""Declared objects: one set of routes for every kind, made from the table of kinds.

Bodies are JSON or one YAML document; every fault comes back at once. PUT and DELETE need If-Match.
"""

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.responses import JSONResponse

from datarecs_application.ports.state import Transaction
from datarecs_application.resources import (
    ANY,
    Applied,
    Key,
    Making,
    Outcome,
    apply_resource,
    create_resource,
    delete_resource,
    get_resource,
    replace_resource,
)
from datarecs_core.access.permissions import Permission
from datarecs_core.access.principal import Principal
from datarecs_core.egress.addresses import Policy, Purpose
from datarecs_core.egress.urls import UrlRules
from datarecs_core.errors.api import ApiCode
from datarecs_core.errors.security import SecurityCode
from datarecs_core.resources.declared import Declared
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Resource
from datarecs_core.values import ResourceUid, instant_text
from datarecs_core_api.auth import needs
from datarecs_core_api.body import MAX_SPEC_BYTES, parse_object, read_bytes
from datarecs_core_api.dependencies import Ports, Using
from datarecs_core_api.idempotency import Answer, once, respond
from datarecs_core_api.pagination import DEFAULT_LIMIT, MAX_LIMIT, Position
from datarecs_core_api.problems import Fault, ProblemError
from datarecs_core_api.views import plain
from datarecs_specs.documents import (
    Expected,
    InvalidSpecError,
    decode_json,
    decode_yaml,
)
from datarecs_specs.kinds import KINDS, KindEntry
from datarecs_specs.reading import Surroundings

router = APIRouter(prefix="/api/v1", tags=["resources"])
Reader = Annotated[Principal, needs(Permission.READ)]
Writer = Annotated[Principal, needs(Permission.RESOURCE_WRITE)]
YAML = ("application/yaml", "application/x-yaml", "text/yaml")


async def _spec_body(request: Request) -> bytes:
    return await read_bytes(request, limit=MAX_SPEC_BYTES, media=("application/json", *YAML))


SpecBytes = Annotated[bytes, Depends(_spec_body)]


def resource_view(resource: Resource) -> dict[str, object]:
    """The object as JSON; the envelope keeps its Kubernetes spelling."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": resource.name,
            "namespace": resource.namespace,
            "uid": str(resource.uid),
            "generation": resource.generation,
            "resourceVersion": str(resource.rv),
            "creationTimestamp": instant_text(resource.created_at),
            "deletionTimestamp": None
            if resource.deletion_at is None
            else instant_text(resource.deletion_at),
            "labels": dict(resource.labels),
            "annotations": dict(resource.annotations),
            "finalizers": list(resource.finalizers),
        },
        "spec": plain(resource.spec),
        "status": {**dict(resource.status), "observed_generation": resource.observed_generation},
    }


def invalid_spec(error: InvalidSpecError) -> ProblemError:
    """Every fault of a declaration with its pointer and, for YAML, its place."""
    faults = [
        Fault(
            code=one.code.docs_id,
            pointer=one.pointer,
            line=one.line,
            column=one.column,
            message=one.message,
            hint=one.hint or None,
        )
        for one in error.findings
    ]
    return ProblemError(
        code=ApiCode.INVALID_SPEC, detail="the declaration has faults", faults=faults
    )


def _surroundings(use: Ports, caller: Principal) -> Surroundings:
    profile = use.profile
    return Surroundings(
        webhooks=UrlRules(
            policy=Policy(
                purpose=Purpose.WEBHOOK,
                profile=profile,
                allowed_cidrs=use.egress.allowed_cidrs.webhook,
                denied_cidrs=use.egress.denied_cidrs,
            ),
            allowed_ports=use.egress.allowed_ports,
            allowed_hosts=use.egress.allowed_hosts,
        ),
        connections=UrlRules(policy=Policy(purpose=Purpose.CONNECTION, profile=profile)),
        references=use.reference_rules(caller.tenant_id),
    )


def _declared(
    request: Request, body: bytes, use: Ports, caller: Principal, expected: Expected
) -> Declared:
    media = request.headers.get("content-type", "").split(";")[0].strip().lower()
    surroundings = _surroundings(use, caller)
    if media in YAML:
        documents = decode_yaml(body, surroundings=surroundings, expected=expected)
        if len(documents) > 1:
            raise ProblemError(
                code=ApiCode.INVALID_INPUT,
                detail="send one document; `datarecs apply` splits files",
            )
        decoded = documents[0]
    else:
        decoded = decode_json(parse_object(body), surroundings=surroundings, expected=expected)
    try:
        declared, _ = decoded.require()
    except InvalidSpecError as cause:
        raise invalid_spec(cause) from cause
    signing = declared.spec.get("signing")
    if isinstance(signing, Mapping) and not caller.may(Permission.SECRET_WRITE):
        raise ProblemError(
            code=SecurityCode.FORBIDDEN, detail="this key lacks the permission secret.write"
        )
    return declared


def _making(use: Ports) -> Making:
    return Making(ids=use.ids, secrets=use.secrets, random_bytes=use.random_bytes)


def _answer(entry: KindEntry, applied: Applied) -> Answer:
    resource = applied.resource
    secret = applied.generated_secret
    created = applied.outcome is Outcome.CREATED
    headers = {"ETag": resource.etag}
    if created:
        headers["Location"] = f"/api/v1/{entry.path}/{resource.name}"
    return Answer(
        status=201 if created else 200,
        body={**resource_view(resource), "outcome": applied.outcome},
        headers=headers,
        shown_once={} if secret is None else {"generated_secret": secret},
    )


def _reading_routes(entry: KindEntry) -> None:
    """List and get of one kind."""
    path, noun = f"/{entry.path}", entry.path.replace("-", "_")

    @router.get(path, operation_id=f"list_{noun}")
    def list_resources(
        use: Using,
        caller: Reader,
        namespace: str | None = None,
        limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = DEFAULT_LIMIT,
        cursor: str | None = None,
    ) -> dict[str, object]:
        return _page(use, caller, entry, namespace=namespace, limit=limit, cursor=cursor)

    @router.get(f"{path}/{{name}}", operation_id=f"get_{noun}")
    def get(
        name: str,
        use: Using,
        caller: Reader,
        namespace: str = DEFAULT_NAMESPACE,
        if_none_match: Annotated[str | None, Header()] = None,
    ) -> Response:
        with use.unit.begin(caller.tenant_id, read_only=True) as tx:
            found = get_resource(tx, Key(kind=entry.kind, name=name, namespace=namespace))
        headers = {"ETag": found.etag}
        if if_none_match == found.etag:
            return Response(status_code=304, headers=headers)
        return JSONResponse(resource_view(found), headers=headers)


def _writing_routes(entry: KindEntry) -> None:
    """Create, replace and delete of one kind."""
    path, noun = f"/{entry.path}", entry.path.replace("-", "_")

    @router.post(path, operation_id=f"create_{noun}", status_code=201)
    def create(
        request: Request,
        body: SpecBytes,
        use: Using,
        caller: Writer,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> Response:
        expected = Expected(kind=entry.kind, namespace=namespace)
        declared = _declared(request, body, use, caller, expected)

        def act(tx: Transaction, _key: str | None) -> Answer:
            return _answer(entry, create_resource(tx, caller, declared, making=_making(use)))

        return once(request, body, unit=use.unit, caller=caller, act=act)

    @router.put(f"{path}/{{name}}", operation_id=f"put_{noun}")
    def put(
        name: str,
        request: Request,
        body: SpecBytes,
        use: Using,
        caller: Writer,
        namespace: str = DEFAULT_NAMESPACE,
        apply: bool = False,  # noqa: FBT001, FBT002  a query parameter
        if_match: Annotated[str | None, Header()] = None,
    ) -> Response:
        """Replace; with `apply` and If-Match `*` create it when it is not there."""
        expected = Expected(kind=entry.kind, name=name, namespace=namespace)
        declared = _declared(request, body, use, caller, expected)
        match, making = _required(if_match), _making(use)
        with use.unit.begin(caller.tenant_id, feed=8) as tx:
            if apply and match == ANY:
                applied = apply_resource(tx, caller, declared, making=making)
            else:
                applied = replace_resource(tx, caller, declared, match=match, making=making)
        answer = _answer(entry, applied)
        return respond(answer.first())

    @router.delete(f"{path}/{{name}}", operation_id=f"delete_{noun}")
    def delete(
        name: str,
        use: Using,
        caller: Writer,
        namespace: str = DEFAULT_NAMESPACE,
        if_match: Annotated[str | None, Header()] = None,
    ) -> Response:
        match = _required(if_match)
        with use.unit.begin(caller.tenant_id, feed=8) as tx:
            key = Key(kind=entry.kind, name=name, namespace=namespace)
            deleted = delete_resource(tx, caller, key, match=match)
        status = 200 if deleted.is_gone else 202
        return JSONResponse(resource_view(deleted.resource), status_code=status)


def _page(
    use: Ports,
    caller: Principal,
    entry: KindEntry,
    *,
    namespace: str | None,
    limit: int,
    cursor: str | None,
) -> dict[str, object]:
    scope, now = {"list": entry.path, "namespace": namespace or "*"}, use.clock.now()
    before = None
    if cursor is not None:
        at = use.cursors.read(cursor, tenant=caller.tenant_id, where=scope, now=now)
        before = (at.created_at, ResourceUid(at.id))
    with use.unit.begin(caller.tenant_id, read_only=True) as tx:
        found = tx.resources.page(entry.kind, namespace=namespace, limit=limit + 1, before=before)
    following = None
    if len(found) > limit:
        last = found[limit - 1]
        position = Position(created_at=last.created_at, id=last.uid)
        following = use.cursors.write(position, tenant=caller.tenant_id, where=scope, now=now)
    return {"items": [resource_view(one) for one in found[:limit]], "next": following}


def _required(if_match: str | None) -> str:
    if if_match is None:
        raise ProblemError(
            code=ApiCode.PRECONDITION_REQUIRED,
            detail="send If-Match with the object's ETag, or * to overwrite whatever stands there",
        )
    return if_match


for _entry in KINDS.values():
    _reading_routes(_entry)
    _writing_routes(_entry)
