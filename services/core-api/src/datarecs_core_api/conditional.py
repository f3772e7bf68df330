"""ETags: when a reader has the current version already, and when a writer must name its version."""

from collections.abc import Mapping

from fastapi import Response
from pydantic import BaseModel

from datarecs_core.errors.api import ApiCode
from datarecs_core_api.problems import ProblemError

JSON_TYPE = "application/json"


def json_answer(
    model: BaseModel, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """The model as JSON, by its published names."""
    return Response(
        model.model_dump_json(by_alias=True),
        status_code=status,
        headers=dict(headers or {}),
        media_type=JSON_TYPE,
    )


def unless_known(model: BaseModel, *, etag: str, if_none_match: str | None) -> Response:
    """304 when the reader names this version, else the whole of it."""
    if is_known(if_none_match, etag):
        return not_modified(etag)
    return json_answer(model, headers={"ETag": etag})


def not_modified(etag: str) -> Response:
    return Response(status_code=304, headers={"ETag": etag})


def is_known(if_none_match: str | None, etag: str) -> bool:
    """Weak comparison (RFC 9110 13.1.2): any of the list, or `*`."""
    named = {one.strip().removeprefix("W/") for one in (if_none_match or "").split(",")}
    return bool(named & {etag, "*"})


def required(if_match: str | None) -> str:
    """The version a writer means. Raises ProblemError (428) when it names none."""
    if if_match is None:
        raise ProblemError(
            code=ApiCode.PRECONDITION_REQUIRED,
            detail="send If-Match with the object's ETag, or * to overwrite any version",
        )
    return if_match.strip()
