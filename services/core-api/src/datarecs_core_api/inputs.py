"""What a client may send besides declarations: the strict base, its types, the form of faults.

Pydantic stays at this border. The rejected value is never echoed: a body may hold a password.
"""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Generic, TypeVar
from uuid import UUID

from fastapi import Query, Request
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from datarecs_core.errors.faults import pointer
from datarecs_core_api.body import JSON, canonical, parse_object, read_bytes
from datarecs_core_api.problems import input_fault, invalid
from datarecs_specs.shapes import NAME

M = TypeVar("M", bound=BaseModel)
NAME_PATTERN = f"^{NAME.regex}$"
_NAME = re.compile(NAME.regex)
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
_INSTANT = re.compile(
    r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?(Z|[+-]\d{2}:\d{2})", re.ASCII
)


class In(BaseModel):
    """What a client may send: no unknown field, no coercion, no server-owned field."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class NoFieldsIn(In):
    """Empty: the path is complete."""

    model_config = ConfigDict(json_schema_extra={"examples": [{}]})


def is_name(text: str) -> bool:
    """Whether it is a possible name: a DNS-1123 label of at most 63 characters."""
    return _NAME.fullmatch(text) is not None


def canonical_uuid(text: str) -> UUID | None:
    """The id, in its one spelling: lower case with hyphens; None for any other text."""
    try:
        uuid = UUID(text)
    except ValueError:
        return None
    return uuid if str(uuid) == text else None


def _visible(text: str) -> str:
    if any(unicodedata.category(one) in _INVISIBLE for one in text):
        raise ValueError("a control, invisible or unassigned character")
    if not unicodedata.is_normalized("NFC", text):
        raise ValueError("the text is not in Unicode normal form C")
    return text


def _uuid(value: object) -> UUID:
    uuid = canonical_uuid(value) if isinstance(value, str) else None
    if uuid is None:
        raise ValueError("not a UUID in lower case with hyphens")
    return uuid


def _whole(value: object) -> object:
    """In JSON Schema 2.0 is an integer; the reader of bodies reads it as a decimal."""
    is_whole = isinstance(value, Decimal) and value == value.to_integral_value()
    return int(value) if isinstance(value, Decimal) and is_whole else value


def _instant(value: object) -> datetime:
    if not isinstance(value, str) or not _INSTANT.fullmatch(value):
        raise ValueError(
            "not a time such as 2026-01-31T12:00:00.123456Z, with its offset and at most six "
            "digits after the second"
        )
    try:
        return datetime.fromisoformat(value)
    except ValueError as cause:
        raise ValueError("there is no such time") from cause


ShortText = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_visible)]
"""One line for people, NFC, without invisible characters."""
Name = Annotated[str, Query(pattern=NAME_PATTERN)]
Namespace = Annotated[str, Query(pattern=NAME_PATTERN, description="A project of the tenant.")]
CanonicalUuid = Annotated[UUID, BeforeValidator(_uuid)]
WHOLE = BeforeValidator(_whole)
"""Added to an int after its bounds: also written 2.0."""
Instant = Annotated[datetime, BeforeValidator(_instant)]
"""RFC 3339 with an offset; aware."""


def said(error: Mapping[str, object]) -> str:
    """Pydantic's sentence about one fault; it names rules, never the value."""
    if error["type"] == "extra_forbidden":
        return "unknown field"
    if error["type"] == "string_pattern_mismatch":
        return f"not in its form; write {NAME.words}" if _is_name(error) else "not in its form"
    return str(error["msg"]).removeprefix("Value error, ")


def _is_name(error: Mapping[str, object]) -> bool:
    context = error.get("ctx")
    return isinstance(context, Mapping) and NAME_PATTERN in str(context.get("pattern"))


def validated(model: type[M], body: Mapping[str, object]) -> M:
    """Raises ProblemError (422 DR4020) with one fault per bad field."""
    try:
        return model.model_validate(body)
    except ValidationError as cause:
        errors = cause.errors(include_input=False, include_url=False)
        faults = [input_fault(pointer(error["loc"]), said(dict(error))) for error in errors]
        raise invalid("the body holds faults", *faults) from cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent(Generic[M]):
    """A body that was read: its meaning, and the form by which a repetition is known."""

    value: M
    canonical: bytes


class JsonBody(Generic[M]):
    """Dependency of a route that takes a JSON object; without a body all defaults hold."""

    def __init__(self, model: type[M]) -> None:
        self.model = model

    def request_body(self) -> Mapping[str, object]:
        """The Request Body Object of OpenAPI."""
        schema = {"$ref": f"#/components/schemas/{self.model.__name__}"}
        required = any(field.is_required() for field in self.model.model_fields.values())
        return {"required": required, "content": {JSON: {"schema": schema}}}

    async def __call__(self, request: Request) -> Sent[M]:
        raw = b""
        if _has_body(request):
            limit: int = request.app.state.max_body_bytes
            raw = await read_bytes(request, limit=limit, media=(JSON,))
        body = parse_object(raw)
        return Sent(value=validated(self.model, body), canonical=canonical(body))


def _has_body(request: Request) -> bool:
    headers = request.headers
    announced = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    return announced or "content-type" in headers
