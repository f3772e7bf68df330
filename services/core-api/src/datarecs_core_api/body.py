"""One reader for every body: bounds first, then meaning (spec security 6).

FastAPI's reader accepts duplicate keys, NaN and doubles, so routes take the raw bytes and pass them
to this module. Fractional numbers arrive as Decimal, digit for digit.
"""

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from email.message import Message
from typing import NoReturn

from fastapi import Request

from datarecs_core.errors.api import ApiCode
from datarecs_core_api.problems import ProblemError, invalid

MAX_SPEC_BYTES = 256 * 1024
MAX_DEPTH = 64
MAX_INTEGER_DIGITS = 19
MAX_NUMBER_CHARACTERS = 64
MAX_EXPONENT = 64
"""Either way: more digits than any decimal of the product has; 1e999999999 written out is 1 GB."""
JSON = "application/json"
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
"""A string, also one without an end, or a bracket: each character is read once."""


def malformed(detail: str) -> ProblemError:
    return ProblemError(code=ApiCode.MALFORMED_REQUEST, detail=detail)


def media_type(request: Request) -> str:
    """Type and subtype in lower case; empty without a Content-Type."""
    return request.headers.get("content-type", "").split(";")[0].strip().lower()


async def read_bytes(request: Request, *, limit: int, media: tuple[str, ...]) -> bytes:
    """The body, refused before it is buffered when it is too large or of another type."""
    encoded = request.headers.get("content-encoding", "identity").strip().lower() != "identity"
    if media_type(request) not in media or encoded or not _is_utf8(request):
        raise ProblemError(
            code=ApiCode.UNSUPPORTED_MEDIA_TYPE,
            detail=f"this route accepts {' or '.join(media)}, UTF-8, not compressed",
        )
    too_large = ProblemError(
        code=ApiCode.BODY_TOO_LARGE,
        detail=f"this route accepts at most {limit} bytes",
    )
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length[:20]) > limit:
        raise too_large
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise too_large
    return bytes(body)


def _is_utf8(request: Request) -> bool:
    header = Message()
    header["content-type"] = request.headers.get("content-type", "")
    return str(header.get_param("charset", "utf-8")).lower() in {"utf-8", "utf8"}


def _refuse_depth(text: str) -> None:
    """Judged on the text outside of strings, before any parser recurses; linear in the text."""
    depth = 0
    for token in _TOKEN.finditer(text):
        bracket = token[0]
        if bracket in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise malformed(f"the body is nested more than {MAX_DEPTH} levels deep")
        elif bracket in "]}":
            depth -= 1


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise malformed("a key occurs twice in one object")
    return result


def _constant(name: str) -> NoReturn:
    raise malformed(f"{name} is not a JSON number")


def _integer(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_INTEGER_DIGITS:
        raise malformed(f"an integer has more than {MAX_INTEGER_DIGITS} digits")
    return int(digits)


def _fraction(digits: str) -> Decimal:
    if len(digits) > MAX_NUMBER_CHARACTERS:
        raise malformed(f"a number has more than {MAX_NUMBER_CHARACTERS} characters")
    exponent = digits.lower().partition("e")[2].lstrip("+-")
    if len(exponent.lstrip("0")) > 2 or (exponent and int(exponent) > MAX_EXPONENT):  # noqa: PLR2004  digits of MAX_EXPONENT
        raise invalid("a number has an exponent out of range")
    return Decimal(digits)


def parse_object(body: bytes) -> Mapping[str, object]:
    """The one JSON object of a body; an empty body is an empty object.

    Raises:
        ProblemError: 400 for everything that is not exactly one well-formed object, 422 for a
            number that no field could take.
    """
    if not body.strip():
        return {}
    if body.startswith(b"\xef\xbb\xbf"):
        raise malformed("the body starts with a byte order mark")
    try:
        text = body.decode("utf-8", errors="strict")
    except UnicodeDecodeError as cause:
        raise malformed("the body is not UTF-8") from cause
    _refuse_depth(text)
    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_constant,
            parse_int=_integer,
            parse_float=_fraction,
        )
    except (json.JSONDecodeError, RecursionError) as cause:
        raise malformed("the body is not JSON") from cause
    if not isinstance(value, dict):
        raise malformed("the body is not a JSON object")
    _refuse_surrogates(value)
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


def canonical(value: Mapping[str, object]) -> bytes:
    """One form for equal bodies: keys sorted, no white space; decimals by their text."""
    return json.dumps(value, sort_keys=True, default=str, separators=(",", ":")).encode()
