"""Types of responses and path names of the API, with the bounds that the document publishes.

Bounds here are published and not checked again: responses were checked when they were stored,
and an invalid name in a path returns 404. Client generators and the contract tests read them.
"""

from collections.abc import Mapping
from typing import Annotated

from fastapi import Path
from pydantic import Field

from datarecs_core_api.pagination import MAX_CURSOR

LARGEST_EXACT = 2**53 - 1
"""Of a count: every JSON reader holds it exactly."""
LARGEST = 2**63 - 1
NAME = {"pattern": r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", "minLength": 1, "maxLength": 63}
QUALIFIED = {"min_length": 1, "max_length": 8192}
"""A name of several parts, joined by dots."""
_UUID_LENGTH = 36

Count = Annotated[int, Field(json_schema_extra={"minimum": 0, "maximum": LARGEST_EXACT})]
Number = Annotated[int, Field(json_schema_extra={"minimum": 0, "maximum": LARGEST})]
Generation = Annotated[int, Field(json_schema_extra={"minimum": 1, "maximum": LARGEST})]
Attempts = Annotated[int, Field(json_schema_extra={"minimum": 0, "maximum": 1_000_000})]
Priority = Annotated[int, Field(json_schema_extra={"minimum": 0, "maximum": 9})]
Seconds = Annotated[int, Field(json_schema_extra={"minimum": 0, "maximum": 86_400})]
HttpStatus = Annotated[int, Field(json_schema_extra={"minimum": 100, "maximum": 599})]
Word = Annotated[str, Field(json_schema_extra={"minLength": 1, "maxLength": 200})]
"""A type, a kind, a state: a name of the platform."""
Line = Annotated[str, Field(json_schema_extra={"maxLength": 2_000})]
MailPart = Annotated[str, Field(json_schema_extra={"maxLength": 1_000_000})]
"""A part of a mail; its lists are cut, so that it stays far below this."""
"""Text of people or systems, cut to 2,000 characters before it is stored."""
NameOut = Annotated[str, Field(json_schema_extra=dict(NAME))]
Code = Annotated[str, Field(json_schema_extra={"pattern": "^DR[0-9]{4}$", "maxLength": 6})]
Symbol = Annotated[str, Field(json_schema_extra={"pattern": "^[A-Z][A-Z0-9_]*$", "maxLength": 100})]
Hash = Annotated[str, Field(json_schema_extra={"pattern": "^sha256:[0-9a-f]{64}$"})]
Digits = Annotated[str, Field(json_schema_extra={"pattern": "^[0-9]{1,19}$"})]
CursorOut = Annotated[str, Field(json_schema_extra={"minLength": 1, "maxLength": MAX_CURSOR})]
PlaceOut = Annotated[str, Field(json_schema_extra={"pattern": "^[A-Za-z0-9_-]{22}$"})]
KeyId = Annotated[str, Field(json_schema_extra={"pattern": "^[a-z2-7]{12}$"})]
Permission = Annotated[str, Field(json_schema_extra={"pattern": r"^[a-z]+(\.[a-z]+)?$"})]
Labels = Mapping[str, Annotated[str, Field(json_schema_extra={"maxLength": 63})]]

ObjectName = Annotated[
    str,
    Path(
        description="Name of the object, or its uid.",
        json_schema_extra={**NAME, "examples": ["ledger-vs-exports"]},
    ),
]
RunIdPath = Annotated[
    str,
    Path(
        description="Id of the run, in lower case.",
        json_schema_extra={
            "format": "uuid",
            "minLength": _UUID_LENGTH,
            "maxLength": _UUID_LENGTH,
            "examples": ["0198c0de-7a10-7c3e-9b1f-2f6d5a4e1c01"],
        },
    ),
]
CaptureIdPath = Annotated[
    str,
    Path(
        description="Id of a capture or of a part of it, in lower case.",
        json_schema_extra={
            "format": "uuid",
            "minLength": _UUID_LENGTH,
            "maxLength": _UUID_LENGTH,
            "examples": ["0198c0de-7a10-7c3e-9b1f-2f6d5a4e1c04"],
        },
    ),
]
StageName = Annotated[
    str, Path(description="Name of the stage.", json_schema_extra={"minLength": 1, "maxLength": 63})
]
KeyIdPath = Annotated[
    str,
    Path(
        description="The 12 characters after `drk_`.",
        json_schema_extra={"pattern": "^[a-z2-7]{12}$", "examples": ["abcdefghijkl"]},
    ),
]
KindPath = Annotated[
    str,
    Path(
        description="Name, path or short name of a kind.",
        json_schema_extra={"minLength": 1, "maxLength": 63, "examples": ["jobs"]},
    ),
]
DeliveryIdPath = Annotated[
    str,
    Path(
        description="Id of the delivery, in lower case.",
        json_schema_extra={
            "format": "uuid",
            "minLength": _UUID_LENGTH,
            "maxLength": _UUID_LENGTH,
            "examples": ["0198c0de-7a10-7c3e-9b1f-2f6d5a4e1c02"],
        },
    ),
]
ActionIdPath = Annotated[
    str,
    Path(
        description="Id of the action, in lower case.",
        json_schema_extra={
            "format": "uuid",
            "minLength": _UUID_LENGTH,
            "maxLength": _UUID_LENGTH,
            "examples": ["0198c0de-7a10-7c3e-9b1f-2f6d5a4e1c03"],
        },
    ),
]
