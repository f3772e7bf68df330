"""The results of a finished run: stages, differences, report.

Stored as blobs by the worker; nothing is computed here. Sample rows need a separate permission,
and reading them is written to the audit.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response

from datarecs_application.ports.outside import BlobStore
from datarecs_application.ports.state import AuditEntry
from datarecs_core.access.permissions import Permission
from datarecs_core.access.principal import Principal
from datarecs_core.catalog.layout import differences_prefix, run_document
from datarecs_core.errors.storage import BlobNotFoundError
from datarecs_core.runs.model import Run
from datarecs_core_api.audit import asker
from datarecs_core_api.auth import Reader, needs
from datarecs_core_api.dependencies import Ports, Using
from datarecs_core_api.guarded import GuardedRoute
from datarecs_core_api.outputs import JsonObject, Page
from datarecs_core_api.pagination import DEFAULT_LIMIT
from datarecs_core_api.problems import differences_removed, not_found, result_lost
from datarecs_core_api.published_types import NameOut, RunIdPath, StageName
from datarecs_core_api.routes.runs import known_run
from datarecs_core_api.views import run_view
from datarecs_reports.browse import MOST_ROWS
from datarecs_reports.decoding import incomplete_stages
from datarecs_reports.differences import DifferenceFilter, largest_rows, read_differences
from datarecs_reports.html import error_report, run_report
from datarecs_reports.model import DifferenceFacts

router = APIRouter(prefix="/api/v1", tags=["runs"], route_class=GuardedRoute)
SampleReader = Annotated[Principal, needs(Permission.SAMPLE_READ)]
MAX_DIFFERENCES = 1000
ONLY = r"^(missing:.{1,63}|outside:.{1,128}|null|type)$"
PAGE_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""The page has inline styles, runs no script and loads nothing."""


def _document(blobs: BlobStore, run: Run) -> Mapping[str, object]:
    try:
        data = blobs.get(run_document(run.tenant_id, run.run_id))
    except BlobNotFoundError as cause:
        if run.result is not None:
            raise result_lost() from cause
        raise not_found("document: the run has no result document") from cause
    document = json.loads(data)
    if not isinstance(document, dict):
        raise TypeError("run.json is an object")
    return document


def _stages_of(document: Mapping[str, object]) -> list[JsonObject]:
    proof = document.get("proof")
    stages = proof.get("stages") if isinstance(proof, dict) else None
    return [one for one in stages if isinstance(one, dict)] if isinstance(stages, list) else []


@router.get("/runs/{run_id}/stages", operation_id="list_stages")
def stages(run_id: RunIdPath, caller: Reader, use: Using) -> Page[JsonObject]:
    """Every stage of a finished run with its counts and measures, in order."""
    run = known_run(use, caller, run_id)
    return Page(items=_stages_of(_document(use.blobs.of(caller.tenant_id), run)))


@router.get("/runs/{run_id}/stages/{stage}", operation_id="get_stage")
def stage(run_id: RunIdPath, stage: StageName, caller: Reader, use: Using) -> JsonObject:
    """One stage, complete; the target of `dataref` in events."""
    run = known_run(use, caller, run_id)
    for one in _stages_of(_document(use.blobs.of(caller.tenant_id), run)):
        if one.get("name") == stage:
            return one
    raise not_found("stage")


class MismatchPage(Page[JsonObject]):
    """Differences of a run, and of which stages not all are stored."""

    incomplete: list[NameOut]
    """A line for each such stage, with the numbers of stored and of all differences."""


@router.get("/runs/{run_id}/mismatches", operation_id="list_mismatches")
def mismatches(
    run_id: RunIdPath,
    caller: SampleReader,
    request: Request,
    use: Using,
    stage: Annotated[str | None, Query(max_length=63)] = None,
    measure: Annotated[str | None, Query(max_length=128)] = None,
    only: Annotated[str | None, Query(pattern=ONLY)] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_DIFFERENCES)] = DEFAULT_LIMIT,
) -> MismatchPage:
    """Stored differences, largest first, with the values of every source side by side."""
    run = known_run(use, caller, run_id)
    if run.differences_deleted_at is not None:
        raise differences_removed(run.differences_deleted_at)
    blobs = use.blobs.of(caller.tenant_id)
    document = _document(blobs, run)
    names = [str(one["name"]) for one in _stages_of(document)]
    parts = (
        blobs.get(info.key)
        for name in names
        if stage in {None, name}
        for info in blobs.list(differences_prefix(run.tenant_id, run.run_id, name))
    )
    where = DifferenceFilter(measure=measure, only=only)
    differences = read_differences(parts, where, limit=limit)
    _note_samples(use, caller, request, run)
    return MismatchPage(items=list(differences), incomplete=incomplete_stages(document, stage))


@router.get(
    "/runs/{run_id}/report",
    operation_id="get_report",
    responses={
        200: {
            "content": {
                "text/html": {"schema": {"type": "string"}},
                "application/json": {"schema": {"type": "object"}},
            }
        }
    },
)
def report(
    run_id: RunIdPath,
    caller: Reader,
    request: Request,
    use: Using,
    format: Literal["html", "json"] = "html",  # noqa: A002  the published name
) -> Response:
    """The self-contained report, or run.json; without sample rows unless they may be read."""
    run = known_run(use, caller, run_id)
    if not run.status.is_terminal:
        raise not_found("report: the run has not ended")
    samples = caller.may(Permission.SAMPLE_READ)
    if run.result is None and format == "html":
        return _download(run, error_report(run_view(run).model_dump(mode="json")), "html")
    document = _document(use.blobs.of(caller.tenant_id), run)
    if samples:
        _note_samples(use, caller, request, run)
    if format == "json":
        # Hints contain values, as samples do.
        hidden = ("samples", "hints", "unreadable", "notes")
        shown = document if samples else {**document, **{name: {} for name in hidden}}
        return _download(run, json.dumps(shown, ensure_ascii=False), "json")
    has_rows = samples and run.differences_deleted_at is None
    rows = _largest(use.blobs.of(caller.tenant_id), run, document) if has_rows else None
    view = run_view(run).model_dump(mode="json")
    page = run_report(document, view, samples=samples, rows=rows)
    return _download(run, page, "html")


def _largest(
    blobs: BlobStore, run: Run, document: Mapping[str, object]
) -> Mapping[str, Sequence[DifferenceFacts]]:
    """By stage the differences that a report carries."""
    rows = {}
    for one in _stages_of(document):
        name = str(one["name"])
        listed = blobs.list(differences_prefix(run.tenant_id, run.run_id, name))
        rows[name] = largest_rows((blobs.get(info.key) for info in listed), limit=MOST_ROWS)
    return rows


def _download(run: Run, content: str | bytes, kind: Literal["html", "json"]) -> Response:
    """A file, never a page of this origin: its content comes from customers' sources."""
    media = {"html": "text/html; charset=utf-8", "json": "application/json"}[kind]
    headers = {
        "Content-Disposition": f'attachment; filename="run-{run.run_id}.{kind}"',
        "Content-Security-Policy": PAGE_POLICY,
    }
    return Response(content, media_type=media, headers=headers)


def _note_samples(use: Ports, caller: Principal, request: Request, run: Run) -> None:
    entry = AuditEntry(
        **asker(request, caller),
        action="sample.read",
        resource_kind="Run",
        resource_uid=str(run.run_id),
    )
    with use.unit.begin(caller.tenant_id) as tx:
        tx.audit.append(entry)
