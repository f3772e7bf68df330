"""The result file of an attempt, the last file of the child: its content and its validity.

`comparator-result.json` decides an end, so it is accepted only when every field is valid and it
belongs to this run, attempt and lease. Separate from the classification, because both backends
read it.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from enum import StrEnum
from typing import TypeVar, cast

from datarecs_core.documents import from_document
from datarecs_core.errors.base import RunErrorCode
from datarecs_core.errors.run import RunDetail
from datarecs_core.runs.model import (
    LikelyCause,
    MeasureGap,
    MissingGroups,
    RunResult,
    RunSummary,
)
from datarecs_core.runs.wording import storable, storable_text
from datarecs_core.values import RunId

NAME = "comparator-result.json"
ARTEFACTS = "artefacts"
"""Folder of an attempt with what its child leaves to be stored; a file's path in it is its key."""
MAX_BYTES = 1024 * 1024
SCHEMA = 1

W = TypeVar("W", bound=StrEnum)

MAX_ENTRIES = 20
"""Of each list of a summary: the event stays below 64 KiB for any names."""
MAX_NAME = 256
_AMOUNTS = frozenset({"gap", "missing_in_source", "missing_in_reference", "changed"})
_AMOUNT = re.compile(r"-?[0-9]+(\.[0-9]+)?", re.ASCII)
_CODE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")


class ChildOutcome(StrEnum):
    COMPLETED = "COMPLETED"
    ERRORED = "ERRORED"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedNode:
    """A step that failed, as the child reports it; `extract-<n>` for sources."""

    name: str
    code: str
    detail_code: str | None
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFile:
    """A file that fits this attempt."""

    outcome: ChildOutcome
    result: RunResult | None
    """Set exactly when the outcome is COMPLETED."""
    nodes: tuple[ReportedNode, ...]
    """At least one when the outcome is ERRORED."""
    summary: RunSummary | None
    pins: Mapping[str, object] | None
    jvm_exit: int | None
    """Exit code of the Java machine, which only the child knows."""

    @property
    def spares_the_child(self) -> bool:
        """Whether the child can serve the next run: it has a result, or a source failed.

        A source that cannot be read does not affect the session, and a new session would delay
        the next run.
        """
        return all(node.code == RunErrorCode.QUERY_FAILED for node in self.nodes)


@dataclass(frozen=True, slots=True)
class NoResult:
    """There is no valid file: RESULT_MISSING or RESULT_INVALID, and why."""

    detail: RunDetail
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """To whom a result file must belong."""

    run_id: RunId
    attempt: int
    lease_epoch: int


def read_result(data: bytes | None, *, of: Attempt) -> ResultFile | NoResult:
    """The file's content; never raises on what a broken child may have left.

    Args:
        data: the bytes, None when there is no file; at most `MAX_BYTES` + 1 need be read.
        of: the attempt that is ending.
    """
    if data is None:
        return NoResult(RunDetail.RESULT_MISSING, "there is no result file")
    try:
        return _read(data, of)
    except _InvalidError as broken:
        return NoResult(RunDetail.RESULT_INVALID, str(broken))


class _InvalidError(Exception):
    """Names the rule that the file breaks."""


def _read(data: bytes, of: Attempt) -> ResultFile:
    document = _parsed(data)
    theirs = (document.get("run_id"), document.get("attempt"), document.get("lease_epoch"))
    if theirs != (str(of.run_id), of.attempt, of.lease_epoch):
        raise _InvalidError("it belongs to another run, attempt or lease")
    file = ResultFile(
        outcome=_word(ChildOutcome, document.get("outcome")),
        result=None if document.get("result") is None else _word(RunResult, document["result"]),
        nodes=tuple(_node(item) for item in _list(document.get("nodes", []))),
        summary=None if document.get("summary") is None else _summary(_object(document["summary"])),
        pins=None if document.get("pins") is None else _object(document["pins"]),
        jvm_exit=None if document.get("jvm_exit") is None else _integer(document["jvm_exit"]),
    )
    if (file.outcome is ChildOutcome.COMPLETED) is not (file.result is not None):
        raise _InvalidError("outcome and result contradict each other")
    if (file.outcome is ChildOutcome.ERRORED) is not bool(file.nodes):
        raise _InvalidError("outcome and nodes contradict each other")
    return file


def _parsed(data: bytes) -> Mapping[str, object]:
    if len(data) > MAX_BYTES:
        raise _InvalidError(f"it is larger than {MAX_BYTES} bytes")
    try:
        document = _object(json.loads(data, parse_float=Decimal))
    except (ValueError, ArithmeticError, RecursionError) as cause:
        raise _InvalidError("it is not JSON") from cause
    if document.get("schema") != SCHEMA:
        raise _InvalidError(f"its schema is not {SCHEMA}")
    if not storable(document):
        raise _InvalidError("a text in it cannot be stored")
    return document


def _node(value: object) -> ReportedNode:
    node = _object(value)
    detail = node.get("detail_code")
    return ReportedNode(
        name=_text(node.get("name")),
        code=_code(node.get("code")),
        detail_code=None if detail is None else _code(detail),
        message=_text(node.get("message")),
    )


_LISTS = {"measures": MeasureGap, "missing": MissingGroups}
_OF_THE_PLATFORM = {"job_name", "report_url"}
"""Fields of a summary that no child decides."""


def _summary(document: Mapping[str, object]) -> RunSummary:
    texts, flags = ("acceptance", "report_path"), ("empty",)
    values: dict[str, object] = {}
    for name in (one.name for one in fields(RunSummary) if one.name not in _OF_THE_PLATFORM):
        value = document.get(name)
        if value is None:
            continue
        if name in texts:
            values[name] = storable_text(_text(value))
        elif name in flags:
            values[name] = value is True
        elif name in _LISTS:
            values[name] = tuple(_record(_LISTS[name], item) for item in _entries(value))
        elif name == "likely_cause":
            values[name] = _record(LikelyCause, value)
        else:
            values[name] = _count(value)
    try:
        return RunSummary(**values)  # type: ignore[arg-type]  # each value was read by its field's kind
    except TypeError as cause:
        raise _InvalidError("a number is missing in its summary") from cause


def _entries(value: object) -> list[object]:
    entries = _list(value)
    if len(entries) > MAX_ENTRIES:
        raise _InvalidError(f"a list of its summary has more than {MAX_ENTRIES} entries")
    return entries


R = TypeVar("R", MeasureGap, MissingGroups, LikelyCause)


def _record(kind: type[R], value: object) -> R:
    """One entry of the summary: names are short texts, amounts decimals, the rest counts."""
    entry = _object(value)
    for name, item in entry.items():
        if isinstance(item, str):
            is_amount = name in _AMOUNTS
            if len(item) > MAX_NAME or (is_amount and _AMOUNT.fullmatch(item) is None):
                raise _InvalidError(f"{name} of its summary is out of bounds")
        else:
            _count(item)
    try:
        return from_document(kind, cast("Mapping[str, int | str]", entry))
    except ValueError as cause:
        raise _InvalidError("an entry of its summary is invalid") from cause


def _object(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise _InvalidError("an object is missing")
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise _InvalidError("a list is missing")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _InvalidError("a text is missing")
    return value


def _code(value: object) -> str:
    """A name of some catalogue, perhaps of a newer one."""
    text = _text(value)
    if _CODE.fullmatch(text) is None:
        raise _InvalidError("a code is missing")
    return text


def _integer(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _InvalidError("an integer is missing")
    return value


def _count(value: object) -> int:
    number = _integer(value)
    if not 0 <= number < 2**53:
        raise _InvalidError("a count is out of bounds")
    return number


def _word(words: type[W], value: object) -> W:
    try:
        return words(_text(value))
    except ValueError as cause:
        raise _InvalidError(f"one of {', '.join(words)} is missing") from cause
