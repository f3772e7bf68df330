"""One reader for every JSON body: bounds first, then meaning (spec security 6).

FastAPI's own reader lets duplicate keys, NaN and doubles through, so routes take the raw bytes and
hand them here. Fractional numbers arrive as Decimal, digit for digit.
"""

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import NoReturn

from fastapi import Request

from datarecs_core.errors.api import ApiCode
from datarecs_core_api.problems import ProblemError

MAX_BODY_BYTES = 1024 * 1024
MAX_SPEC_BYTES = 256 * 1024
MAX_DEPTH = 64
MAX_INTEGER_DIGITS = 19
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"')
_BRACKET = re.compile(r"[\[\]{}]")


def malformed(detail: str) -> ProblemError:
    return ProblemError(code=ApiCode.MALFORMED_REQUEST, detail=detail)


async def read_bytes(request: Request, *, limit: int, media: tuple[str, ...]) -> bytes:
    """The body, refused before it is buffered when it is too large or of another type."""
    given = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if given not in media or request.headers.get("content-encoding"):
        raise ProblemError(
            code=ApiCode.UNSUPPORTED_MEDIA_TYPE, detail=f"this route takes {' or '.join(media)}"
        )
    too_large = ProblemError(
        code=ApiCode.BODY_TOO_LARGE, detail=f"this route takes at most {limit} bytes"
    )
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > limit:
        raise too_large
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise too_large
    return bytes(body)


def _too_deep(text: str) -> bool:
    """Judged on the text outside of strings, before any parser recurses."""
    depth = 0
    for bracket in _BRACKET.findall(_STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > MAX_DEPTH:
            return True
    return False


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise malformed("a key stands twice in one object")
    return result


def _constant(name: str) -> NoReturn:
    raise malformed(f"{name} is no JSON number")


def _integer(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_INTEGER_DIGITS:
        raise malformed(f"an integer has more than {MAX_INTEGER_DIGITS} digits")
    return int(digits)


def _fraction(digits: str) -> Decimal:
    if len(digits) > MAX_DEPTH:
        raise malformed("a number has more than 64 characters")
    return Decimal(digits)


def parse_object(body: bytes) -> Mapping[str, object]:
    """The one JSON object of a body; an empty body is an empty object.

    Raises ProblemError (400) for everything that is not exactly one well-formed object.
    """
    if not body.strip():
        return {}
    if body.startswith(b"\xef\xbb\xbf"):
        raise malformed("the body starts with a byte order mark")
    try:
        text = body.decode("utf-8", errors="strict")
    except UnicodeDecodeError as cause:
        raise malformed("the body is not UTF-8") from cause
    if _too_deep(text):
        raise malformed(f"the body is nested more than {MAX_DEPTH} levels deep")
    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_constant,
            parse_int=_integer,
            parse_float=_fraction,
        )
        text.encode("utf-8")
        _refuse_surrogates(value)
    except (json.JSONDecodeError, RecursionError) as cause:
        raise malformed("the body is not JSON") from cause
    if not isinstance(value, dict):
        raise malformed("the body is not a JSON object")
    return value


def _refuse_surrogates(value: object) -> None:
    """Half a surrogate pair is legal JSON and no text; it would fail later, deep inside."""
    match value:
        case str():
            try:
                value.encode()
            except UnicodeEncodeError as cause:
                raise malformed("a text holds half a surrogate pair") from cause
        case dict():
            for key, item in value.items():
                _refuse_surrogates(key)
                _refuse_surrogates(item)
        case list():
            for item in value:
                _refuse_surrogates(item)
        case _:
            pass
