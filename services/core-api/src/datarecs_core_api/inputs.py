"""The strict base of every body a client sends, and how its faults are told.

Pydantic stays at this border. The rejected value is never echoed: a body may hold a password.
"""

from collections.abc import Mapping
from typing import Annotated, TypeVar

from fastapi import Depends, Request
from pydantic import BaseModel, ConfigDict, ValidationError

from datarecs_core.errors.api import ApiCode
from datarecs_core_api.body import MAX_BODY_BYTES, parse_object, read_bytes
from datarecs_core_api.problems import Fault, ProblemError

M = TypeVar("M", bound=BaseModel)


class In(BaseModel):
    """What a client may send: no unknown field, no coercion, no server-owned field."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def pointer(path: tuple[int | str, ...]) -> str:
    """RFC 6901 pointer of a path of keys and indexes."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def validated(model: type[M], body: Mapping[str, object]) -> M:
    """Raises ProblemError (422 DR4020) with one fault per bad field."""
    try:
        return model.model_validate(body)
    except ValidationError as cause:
        faults = [
            Fault(
                code=ApiCode.INVALID_INPUT.docs_id,
                pointer=pointer(error["loc"]),
                message="unknown field" if error["type"] == "extra_forbidden" else error["msg"],
            )
            for error in cause.errors(include_input=False, include_url=False)
        ]
        raise ProblemError(
            code=ApiCode.INVALID_INPUT, detail="the body holds faults", faults=faults
        ) from cause


async def _json_body(request: Request) -> bytes:
    if not request.headers.get("content-type") and request.headers.get("content-length") in (
        None,
        "0",
    ):
        return b""
    return await read_bytes(request, limit=MAX_BODY_BYTES, media=("application/json",))


JsonBytes = Annotated[bytes, Depends(_json_body)]
"""The raw body of a JSON route; empty when none was sent."""


def parsed(model: type[M], body: bytes) -> M:
    return validated(model, parse_object(body))
