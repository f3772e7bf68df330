"""What a capture recorded, counted from rows and from files of the blob store.

Statements and keys stand here once more, apart from the repositories of the product: a defect of
theirs must not hide what it lost.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import LiteralString
from urllib.parse import unquote

from datarecs_core.catalog.protobuf import decode
from datarecs_core.catalog.records import FileStats
from datarecs_core.hashing import sha256_hex
from datarecs_testing.database import PreparedDatabase

_ITEMS: LiteralString = """
SELECT kind, state, count(*) FROM datarecs.capture_work GROUP BY 1, 2
"""
_ERRORS: LiteralString = """
SELECT concat_ws(' ', kind, state, error_code, 'attempt', attempt, error_message), count(*)
FROM datarecs.capture_work WHERE state <> 'SUCCEEDED' GROUP BY 1 ORDER BY 2 DESC LIMIT 20
"""
_PLANS: LiteralString = """
SELECT DISTINCT task ->> 'plan_key' FROM datarecs.capture_work WHERE kind = 'EXEC_FILE_GROUP'
"""
_POINTERS: LiteralString = "SELECT key, blob_key, payload, version FROM datarecs.pointer"
_ENDS: LiteralString = """
SELECT split_part(type, 'capture.', 2), convert_from(data, 'UTF8') FROM datarecs.outbox
WHERE type LIKE '%%capture.file_group.completed' OR type LIKE '%%capture.snapshot.finalized'
"""
_COMPLETED: LiteralString = """
SELECT coalesce(sum((counters ->> 'files_completed')::bigint), 0) FROM datarecs.capture_work
"""
_PUBLISHED: LiteralString = """
WITH active AS (
    SELECT tenant_id, replace(key, 'targets-active', '') AS stats,
        convert_from(payload, 'UTF8')::json AS payload
    FROM datarecs.pointer WHERE key LIKE '/accounts/%%/targets-active'
), generation AS (
    SELECT *, stats || CASE payload ->> 'generation' WHEN 'base' THEN ''
        ELSE 'target-generations/' || (payload ->> 'generation') || '/' END AS records
    FROM active
)
SELECT (payload ->> 'number')::int,
    (SELECT count(*) FROM datarecs.pointer AS file
        WHERE file.tenant_id = generation.tenant_id
        AND starts_with(file.key, records || 'files/')),
    (SELECT count(*) FROM datarecs.pointer AS target
        WHERE target.tenant_id = generation.tenant_id
        AND starts_with(target.key, records || 'targets/'))
FROM generation
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A snapshot as a reader of one moment sees it."""

    files: int
    targets: int
    """The table and its columns with figures."""
    number: int
    """Of the publication."""


def published(database: PreparedDatabase) -> Sequence[Published]:
    """Every published snapshot, by one statement."""
    return [
        Published(files=files, targets=targets, number=number)
        for number, files, targets in database.query(_PUBLISHED)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureLedger:
    counts: Mapping[str, int]
    faults: Sequence[str]


def balanced(
    database: PreparedDatabase, blobs: Path, rows_by_file: Mapping[str, int], *, tables: int
) -> CaptureLedger:
    """Compare everything that was stored with the files of the source.

    Args:
        database: nothing else writes to it.
        blobs: folder of the blob store.
        rows_by_file: every file of the source.
        tables: each has one snapshot.
    """
    pointers = {key: (blob, version) for key, blob, _, version in database.query(_POINTERS)}
    recorded = _recorded(pointers)
    groups, finalised = _events(database)
    states = {(kind, state): count for kind, state, count in database.query(_ITEMS)}
    planned = _planned(database, blobs)
    ((completed,),) = database.query(_COMPLETED)
    numbers = [one.number for one in published(database)]
    counts = {
        "files of the source": len(rows_by_file),
        "planned files": sum(planned.values()),
        "recorded files": len(recorded),
        "doubled files": sum(count - 1 for count in Counter(recorded).values()),
        "lost files": len(set(rows_by_file) - set(recorded)),
        "file groups": sum(n for (kind, _), n in states.items() if kind == "EXEC_FILE_GROUP"),
        "file groups that ended twice": sum(groups.values()) - len(groups),
        "files counted by the queue": int(completed),
        "indexes": sum("/index-artifacts/" in key for key in pointers),
        "snapshots finalised": len(numbers),
        "snapshots finalised twice": sum(finalised.values()) - len(finalised),
        "items that did not succeed": sum(
            count for (_, state), count in states.items() if state != "SUCCEEDED"
        ),
        "damaged records": _damaged(pointers, blobs, rows_by_file),
    }
    files = len(rows_by_file)
    expected = {
        "planned files": files,
        "recorded files": files,
        "doubled files": 0,
        "lost files": 0,
        "file groups that ended twice": 0,
        "file groups": len(groups),
        "files counted by the queue": files,
        "indexes": files,
        "snapshots finalised": tables,
        "snapshots finalised twice": 0,
        "items that did not succeed": 0,
        "damaged records": 0,
    }
    faults = [
        f"{name}: {counts[name]}, expected {number}"
        for name, number in expected.items()
        if counts[name] != number
    ]
    if numbers != [1] * tables:
        faults.append(f"numbers of publications: {sorted(numbers)}")
    if set(planned) != set(rows_by_file):
        faults.append("the planned files are not those of the source")
    faults += [f"{count} items: {error}" for error, count in database.query(_ERRORS)]
    return CaptureLedger(counts=counts, faults=faults)


def _recorded(pointers: Collection[str]) -> list[str]:
    """Paths of files with statistics, of any generation of any snapshot."""
    return [
        unquote(key.rpartition("/")[2])
        for key in pointers
        if "/stats/" in key and key.split("/")[-2] == "files"
    ]


def _planned(database: PreparedDatabase, blobs: Path) -> Counter[str]:
    """The files of all groups of all plans."""
    planned: Counter[str] = Counter()
    for (key,) in database.query(_PLANS):
        for group in json.loads((blobs / key).read_bytes())["groups"]:
            planned.update(group)
    return planned


def _events(database: PreparedDatabase) -> tuple[Counter[str], Counter[str]]:
    """Events by work item: of groups and of finalised snapshots."""
    groups: Counter[str] = Counter()
    finalised: Counter[str] = Counter()
    for name, data in database.query(_ENDS):
        item = str(json.loads(data)["job_id"])
        (groups if name.startswith("file_group") else finalised)[item] += 1
    return groups, finalised


def _damaged(
    pointers: Mapping[str, tuple[str | None, int]], blobs: Path, rows: Mapping[str, int]
) -> int:
    """Pointers whose record is missing, has another hash, or the rows of another file."""
    damaged = 0
    for key, (blob, _) in pointers.items():
        if blob is None:
            continue
        file = blobs / blob
        content = file.read_bytes() if file.is_file() else b""
        is_whole = sha256_hex(content) == file.name.partition(".")[0]
        if is_whole and key.split("/")[-2] == "files":
            record = decode(FileStats, content)
            is_whole = rows.get(record.path) == record.rows
        damaged += not is_whole
    return damaged
