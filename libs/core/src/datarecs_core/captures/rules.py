"""Which fields of a capture request belong together; all faults of a request at once.

A field that the rest of the request makes useless is refused: it would look like an order and have
no effect. Spec queue-capture 14.
"""

from collections.abc import Iterator

from datarecs_core.captures.request import (
    DEFAULT_COLUMNS,
    CaptureMode,
    CaptureRequest,
    ColumnChoice,
    Output,
    SnapshotChoice,
)
from datarecs_core.errors.faults import Fault, Place
from datarecs_core.errors.spec import SpecCode

MOST_NAMES = 1_000
"""Namespaces, tables, columns or snapshot ids in one request."""
PER_COLUMN = frozenset({Output.COLUMN_STATS, Output.PARQUET_PAGE_INDEX})
"""Outputs that are about columns."""


def request_faults(request: CaptureRequest) -> list[Fault]:
    """Every broken rule, with paths of the document of a request; empty: it is accepted."""
    return [
        *_scope_faults(request),
        *_output_faults(request),
        *_column_faults(request),
        *_snapshot_faults(request),
        *_size_faults(request),
    ]


def _scope_faults(request: CaptureRequest) -> Iterator[Fault]:
    scope = request.scope
    named = {
        "namespaces": bool(scope.namespaces),
        "tables": bool(scope.tables),
        "view": scope.view is not None,
    }
    used = [name for name, is_used in named.items() if is_used]
    if len(used) > 1:
        yield _useless(
            ("scope", used[-1]),
            f"a scope has one of {', '.join(used)}, and not more of them at once",
            "start one capture for each",
        )
    if request.mode is not CaptureMode.CAPTURE_ONLY:
        return
    for name in ("namespaces", "view"):
        if named[name]:
            yield _useless(
                ("scope", name),
                "CAPTURE_ONLY captures named tables; it reads no namespaces and no views",
                "name tables, or use METADATA_AND_CAPTURE",
            )
    if not scope.tables:
        yield _missing(
            ("scope", "tables"),
            "CAPTURE_ONLY needs the names of tables",
            "name tables, or use METADATA_AND_CAPTURE",
        )


def _output_faults(request: CaptureRequest) -> Iterator[Fault]:
    outputs = request.policy.outputs
    if request.captures and not outputs and request.scope.view is None:
        yield _missing(
            ("outputs",),
            f"{request.mode} needs outputs",
            "name outputs such as TABLE_STATS, or use METADATA_ONLY",
        )
    if outputs and not request.captures:
        yield _useless(("outputs",), "METADATA_ONLY captures nothing", "leave outputs out")
    if request.captures and request.scope.view is not None:
        yield _useless(("mode",), "a view has no data of its own", "use METADATA_ONLY for a view")


def _column_faults(request: CaptureRequest) -> Iterator[Fault]:
    policy = request.policy
    is_explicit = policy.column_choice is ColumnChoice.EXPLICIT_ONLY
    is_first = policy.column_choice is ColumnChoice.FIRST_N
    if is_explicit and not policy.columns:
        yield _missing(
            ("columns", "names"),
            "EXPLICIT_ONLY needs the names of columns",
            "name them, or use FIRST_N or ALL",
        )
    if policy.columns and not is_explicit:
        yield _useless(
            ("columns", "names"), "only EXPLICIT_ONLY has names", "set choice to EXPLICIT_ONLY"
        )
    if policy.first_columns != DEFAULT_COLUMNS and not is_first:
        yield _useless(("columns", "first"), "only FIRST_N has a number", "set choice to FIRST_N")
    chooses = policy.columns or not is_first or policy.first_columns != DEFAULT_COLUMNS
    if chooses and not PER_COLUMN.intersection(policy.outputs):
        yield _useless(
            ("columns",),
            "no output of this request is about columns",
            "add COLUMN_STATS or PARQUET_PAGE_INDEX, or leave columns out",
        )


def _snapshot_faults(request: CaptureRequest) -> Iterator[Fault]:
    selection = request.selection
    if request.scope.view is not None:
        if selection is not None:
            yield _useless(("snapshots",), "a view has no snapshots", "leave snapshots out")
        return
    if selection is None:
        yield _missing(
            ("snapshots",), "the snapshots are missing", "choose CURRENT, LATEST_N, EXPLICIT or ALL"
        )
        return
    kind = selection.kind
    if kind is SnapshotChoice.LATEST_N and selection.latest < 1:
        yield Fault(
            code=SpecCode.BAD_LENGTH,
            path=("snapshots", "latest"),
            message="LATEST_N needs a number of snapshots, at least 1",
            hint="such as latest: 3",
        )
    if kind is not SnapshotChoice.LATEST_N and selection.latest:
        yield _useless(("snapshots", "latest"), "only LATEST_N has a number", "leave latest out")
    if kind is SnapshotChoice.EXPLICIT and not selection.snapshot_ids:
        yield _missing(
            ("snapshots", "ids"),
            "EXPLICIT needs ids of snapshots",
            "take them from the snapshots of the table in the catalogue",
        )
    if kind is not SnapshotChoice.EXPLICIT and selection.snapshot_ids:
        yield _useless(("snapshots", "ids"), "only EXPLICIT has ids", "leave ids out")


def _size_faults(request: CaptureRequest) -> Iterator[Fault]:
    selection = request.selection
    sizes = {
        ("scope", "namespaces"): len(request.scope.namespaces),
        ("scope", "tables"): len(request.scope.tables),
        ("columns", "names"): len(request.policy.columns),
        ("snapshots", "ids"): 0 if selection is None else len(selection.snapshot_ids),
    }
    for path, size in sizes.items():
        if size > MOST_NAMES:
            yield Fault(
                code=SpecCode.BAD_LENGTH,
                path=path,
                message=f"a capture has at most {MOST_NAMES} of these, and here are {size}",
                hint="start one capture for each part",
            )


def _useless(path: tuple[str, ...], message: str, hint: str) -> Fault:
    return Fault(code=SpecCode.WITHOUT_EFFECT, path=path, message=message, hint=hint)


def _missing(path: tuple[str, ...], message: str, hint: str) -> Fault:
    return Fault(
        code=SpecCode.MISSING_FIELD, path=path, message=message, hint=hint, place=Place.MISSING
    )
