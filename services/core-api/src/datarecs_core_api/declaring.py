"""Declarations as bodies: JSON or one YAML document, checked with the rules of this deployment.

Every fault is returned at once. Separate from the routes, which are the same for every kind.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fastapi import Request

from datarecs_core.access.permissions import Permission
from datarecs_core.access.principal import Principal
from datarecs_core.egress.addresses import Policy, Purpose
from datarecs_core.egress.urls import UrlRules
from datarecs_core.resources.declared import Declared
from datarecs_core.resources.resource import Kind
from datarecs_core_api.auth import check_permission
from datarecs_core_api.body import (
    JSON,
    MAX_SPEC_BYTES,
    canonical,
    media_type,
    parse_object,
    read_bytes,
)
from datarecs_core_api.dependencies import Ports
from datarecs_core_api.problems import invalid
from datarecs_events.event_types import FILTERED_TYPES
from datarecs_specs.documents import Decoded, Expected, decode_json, decode_yaml
from datarecs_specs.kinds import KindEntry
from datarecs_specs.reading import Surroundings

YAML = ("application/yaml", "application/x-yaml", "text/yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A body as it was sent: YAML text, or a JSON object that was read."""

    yaml: bytes | None
    json: Mapping[str, object]

    @property
    def canonical(self) -> bytes:
        """The form by which a repetition is known."""
        return canonical(self.json) if self.yaml is None else self.yaml

    def decoded(self, surroundings: Surroundings, expected: Expected) -> Decoded:
        """Raises ProblemError (422) for several documents."""
        if self.yaml is None:
            return decode_json(self.json, surroundings=surroundings, expected=expected)
        documents = decode_yaml(self.yaml, surroundings=surroundings, expected=expected)
        if len(documents) > 1:
            raise invalid("send one document; `datarecs apply` splits files")
        return documents[0]


class DeclarationBody:
    """Dependency of a route that takes a declaration of a kind."""

    def __init__(self, entry: KindEntry) -> None:
        self.entry = entry

    def request_body(self) -> Mapping[str, object]:
        """The Request Body Object of OpenAPI."""
        content = {"schema": {"$ref": f"#/components/schemas/{self.entry.kind}"}}
        return {"required": True, "content": {JSON: content, YAML[0]: content}}

    async def __call__(self, request: Request) -> Declaration:
        raw = await read_bytes(request, limit=MAX_SPEC_BYTES, media=(JSON, *YAML))
        if media_type(request) in YAML:
            return Declaration(yaml=raw, json={})
        return Declaration(yaml=None, json=parse_object(raw))


def declared(
    request: Request, body: Declaration, *, use: Ports, caller: Principal, expected: Expected
) -> Declared:
    """The declaration without faults.

    Raises:
        InvalidSpecError: with every fault.
        ProblemError: 403, the platform would create a secret or start runs or captures, and the
            caller may not do that itself.
    """
    resource, _ = body.decoded(_surroundings(use, caller), expected).require()
    if _makes_secret(resource):
        check_permission(request, caller, Permission.SECRET_WRITE)
    if resource.kind is Kind.SCHEDULE:
        check_permission(request, caller, Permission.RUN_SCHEDULE)
    if resource.kind is Kind.CAPTURE:
        check_permission(request, caller, Permission.CAPTURE_TRIGGER)
    return resource


def _makes_secret(resource: Declared) -> bool:
    signing = resource.spec.get("signing")
    return isinstance(signing, Mapping) and signing.get("mode") == "managed"


def _surroundings(use: Ports, caller: Principal) -> Surroundings:
    egress, profile = use.egress, use.profile
    return Surroundings(
        webhooks=UrlRules(
            policy=Policy(
                purpose=Purpose.WEBHOOK,
                profile=profile,
                allowed_cidrs=egress.allowed_cidrs.webhook,
                denied_cidrs=egress.denied_cidrs,
                nat64_prefixes=egress.nat64_prefixes,
            ),
            allowed_ports=egress.allowed_ports,
            allowed_hosts=egress.allowed_hosts,
        ),
        connections=UrlRules(
            policy=Policy(
                purpose=Purpose.CONNECTION,
                profile=profile,
                allowed_cidrs=egress.allowed_cidrs.connection,
                denied_cidrs=egress.denied_cidrs,
                nat64_prefixes=egress.nat64_prefixes,
            )
        ),
        references=use.reference_rules(caller.tenant_id),
        on_server=True,
        event_types=FILTERED_TYPES,
    )
