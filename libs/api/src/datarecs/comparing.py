"""`compare`: the comparison of `datarecs compare`, called from a program.

Arguments become the flags of the command, so both have one decoder, one engine and one result.
"""

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from decimal import Decimal
from os import PathLike, fspath
from pathlib import Path

from datarecs.arrow_files import ArrowStream, store_table
from datarecs.comparison import Comparison
from datarecs.errors import ArgumentError, explained
from datarecs_cli.invocation import Invocation
from datarecs_cli.local.engines import EngineChoice
from datarecs_cli.local.faults import ScratchNotWritableError
from datarecs_cli.local.folder import OutFolder
from datarecs_cli.local.memory_size import memory_bytes
from datarecs_cli.local.places import names_of
from datarecs_cli.local.question import Flags, prepare_question
from datarecs_cli.local.running import Local, compare_locally
from datarecs_cli.local.terminal_reporter import TerminalReporter
from datarecs_cli.screen import Screen
from datarecs_runtime.clock import SystemClock, UuidV7Ids

TableSource = str | PathLike[str] | ArrowStream
"""A path of Parquet, CSV or JSON as `datarecs compare` takes it, or a table in memory."""
Limit = str | int | float | Decimal | timedelta
"""A tolerance: a number, a percentage such as `"1%"`, or a length of time."""
_LEAST = 2
_PREFIX = "datarecs-"
_SILENT = Invocation(quiet=True)


def compare(
    *sources: TableSource,
    key: str | Sequence[str] = (),
    measures: str | Sequence[str] | None = None,
    tolerance: Limit | Mapping[str, Limit] | None = None,
    exclude: str | Sequence[str] = (),
    columns: Mapping[str, Mapping[str, str]] | None = None,
    names: Sequence[str] = (),
    memory: str | None = None,
    out: str | PathLike[str] | None = None,
) -> Comparison:
    """Compare tables row by row, in this process.

    Args:
        sources: two or more, each read once; the first is the reference. Tables in memory are
            stored in temporary files during the comparison. An index of pandas is a column if it
            has a name.
        key: columns that identify a row; default all columns, so that whole rows are compared.
        measures: columns to compare; default all others.
        tolerance: the limit of every measure, or limits by measure; needs `measures`. Without a
            limit values must be equal.
        exclude: columns not to compare, without `measures`.
        columns: by name of a source: its columns by the name in `key` and `measures`, if they
            differ, as `{"exports": {"order_id": "OrderRef"}}`.
        names: one per source, in lower case with hyphens; default the name of the file, and
            `source-1`, `source-2` and so on for tables in memory.
        memory: for the comparison, such as `"4GiB"`; default 2 GiB. What exceeds it goes to disk.
        out: folder for run.json, report.html and differences, as `--out` of the command; default
            a temporary folder that is removed with the result.

    Returns:
        The result, also if the sources do not match.

    Raises:
        ArgumentError: an argument cannot be used, or a file is missing.
        DatarecsError: a column is unknown, or a source or the comparison failed; `code` and `fix`
            say more.

    The deadline of one hour, Ctrl-C and SIGTERM end a comparison in the main thread only.
    """
    arguments: dict[str, object] = {"key": key, "measures": measures, "exclude": exclude}
    arguments |= {"tolerance": tolerance, "columns": columns, "names": names}
    with explained(), ExitStack() as inputs:
        _check_sources(sources, names)
        paths, labels = _stored(sources, tuple(names), inputs)
        flags = Flags(
            sources=paths,
            keys=_names(key),
            measures=_measures(measures, tolerance, exclude),
            left_out=_names(exclude),
            names=labels,
            columns=_checked_columns(columns or {}, labels or tuple(names_of(paths))),
            call=_call(_shown(sources, labels), arguments),
        )
        return _compared(flags, None if out is None else Path(out), memory)


def _compared(flags: Flags, out: Path | None, memory: str | None) -> Comparison:
    limit = None if memory is None else memory_bytes(memory, "memory")
    clock = SystemClock()
    prepared = prepare_question(flags, now=clock.now(), invocation=_SILENT)
    if prepared is None:
        raise TypeError("a call has no job file")
    root = out or Path(tempfile.mkdtemp(prefix=_PREFIX))
    local = Local(
        run_id=str(UuidV7Ids().new()),
        out=OutFolder(root, is_temporary=out is None),
        engine=EngineChoice.KERNEL,
        memory_bytes=limit,
        reporter=TerminalReporter(Screen(quiet=True, moves=False), None, clock, verbose=False),
        clock=clock,
    )
    try:
        document = compare_locally(prepared, local)
    except BaseException:
        if out is None:
            shutil.rmtree(root, ignore_errors=True)
        raise
    return Comparison(document, root, is_temporary=out is None)


def _check_sources(sources: Sequence[TableSource], names: Sequence[str]) -> None:
    if len(sources) < _LEAST:
        raise ArgumentError(f"compare needs two or more sources, not {len(sources)}")
    if names and len(names) != len(sources):
        raise ArgumentError(
            f"names has {len(names)} names for {len(sources)} sources; write one for each"
        )
    for at, source in enumerate(sources, start=1):
        if not isinstance(source, str | PathLike | ArrowStream):
            raise ArgumentError(
                f"source {at} is a {type(source).__name__}; pass a path, or a table of pandas 2.2 "
                "or later, Polars, Arrow or DuckDB"
            )


def _stored(
    sources: Sequence[TableSource], names: tuple[str, ...], inputs: ExitStack
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A path for every source, and the names of sources, empty if all have those of files."""
    if all(isinstance(source, str | PathLike) for source in sources):
        return tuple(map(_path, sources)), names
    folder = inputs.enter_context(_temporary_folder())
    paths = [
        str(folder / f"source-{at}.parquet") if isinstance(source, ArrowStream) else _path(source)
        for at, source in enumerate(sources, start=1)
    ]
    labels = names or tuple(names_of(paths))
    for source, path, label in zip(sources, paths, labels, strict=True):
        if isinstance(source, ArrowStream):
            store_table(source, Path(path), label)
    return tuple(paths), labels


def _path(source: TableSource) -> str:
    if isinstance(source, ArrowStream):
        raise TypeError("a table has no path")
    return fspath(source)


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    try:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    except OSError as cause:
        raise ScratchNotWritableError(cause.strerror or type(cause).__name__) from cause
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _names(columns: str | Sequence[str]) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)


def _measures(
    measures: str | Sequence[str] | None,
    tolerance: Limit | Mapping[str, Limit] | None,
    exclude: str | Sequence[str],
) -> tuple[str, ...]:
    """Measures as on the command line: `amount=0.01`, or the name alone."""
    if exclude and measures:
        raise ArgumentError("exclude has no effect with measures; leave one of them out")
    if tolerance is None:
        return _names(measures or ())
    if not measures:
        raise ArgumentError("tolerance needs measures: name the columns to compare")
    listed = _names(measures)
    if not isinstance(tolerance, Mapping):
        return tuple(f"{name}={_limit(tolerance)}" for name in listed)
    unknown = sorted(set(tolerance) - set(listed))
    if unknown:
        raise ArgumentError(
            f"tolerance has {', '.join(unknown)}, which measures does not have; measures has "
            f"{', '.join(listed)}"
        )
    return tuple(
        f"{name}={_limit(tolerance[name])}" if name in tolerance else name for name in listed
    )


def _limit(limit: Limit) -> str:
    match limit:
        case bool():
            raise ArgumentError(f"tolerance {limit} is not a number, a percentage or a timedelta")
        case timedelta():
            return f"PT{limit.total_seconds():f}S"
        case float():
            return f"{Decimal(repr(limit)):f}"
        case Decimal():
            return f"{limit:f}"
        case _:
            return str(limit)


def _checked_columns(
    columns: Mapping[str, Mapping[str, str]], names: Sequence[str]
) -> Mapping[str, Mapping[str, str]]:
    unknown = sorted(set(columns) - set(names))
    if unknown:
        raise ArgumentError(
            f"columns names the source {', '.join(unknown)}; the sources are {', '.join(names)}"
        )
    return columns


def _shown(sources: Sequence[TableSource], labels: Sequence[str]) -> list[str]:
    """Paths as written; `<ledger>` for a table, by the name of its source."""
    return [
        f"<{labels[at]}>" if isinstance(source, ArrowStream) else repr(fspath(source))
        for at, source in enumerate(sources)
    ]


def _call(sources: Sequence[str], arguments: Mapping[str, object]) -> str:
    """The call as shown in the report."""
    named = [f"{name}={value!r}" for name, value in arguments.items() if value not in (None, ())]
    return f"datarecs.compare({', '.join([*sources, *named])})"
