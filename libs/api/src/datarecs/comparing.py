"""`compare`: the comparison of `datarecs compare`, called from a program.

Arguments become the flags of the command, so both have one decoder, one engine and one result.
"""

import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from numbers import Real
from os import PathLike
from pathlib import Path

from datarecs.comparison import Comparison
from datarecs.errors import ArgumentError, explained
from datarecs.sources import TableSource, check_sources, open_sources
from datarecs_cli.invocation import Invocation
from datarecs_cli.local.column_names import MeasureFlag
from datarecs_cli.local.engines import EngineChoice
from datarecs_cli.local.folder import OutFolder
from datarecs_cli.local.memory_size import memory_bytes
from datarecs_cli.local.question import Flags, prepare_question
from datarecs_cli.local.running import Local, compare_locally
from datarecs_cli.local.scratch import PREFIX
from datarecs_cli.local.terminal_reporter import TerminalReporter
from datarecs_cli.screen import Screen
from datarecs_runtime.clock import SystemClock, UuidV7Ids

Limit = str | int | float | Decimal | timedelta
"""A tolerance: a number, a percentage such as `"1%"`, or a length of time."""
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
        sources: two or more, each read once; the first is the reference. Paths and addresses are
            those of `datarecs compare`; `source` makes one for a query of PostgreSQL. Tables in
            memory and DataFrames of Spark are stored in temporary files during the comparison. An
            index of pandas is a column if it has a name.
        key: columns that identify a row; default all columns, so that whole rows are compared.
        measures: columns to compare; default all others.
        tolerance: the limit of every measure, or limits by measure; needs `measures`. Without a
            limit values must be equal.
        exclude: columns not to compare, without `measures`.
        columns: by name of a source: its columns by the name in `key` and `measures`, if they
            differ, as `{"exports": {"order_id": "OrderRef"}}`.
        names: one per source, in lower case with hyphens; default the name of the file or table,
            and `source-1`, `source-2` and so on for tables in memory.
        memory: for the comparison, such as `"4GiB"`; default 2 GiB. What exceeds it goes to disk.
        out: folder for run.json, report.html and differences, as `--out` of the command; default
            a temporary folder that is removed with the result.

    Returns:
        The result, also if the sources do not match.

    Raises:
        ArgumentError: an argument cannot be used, or a file is missing.
        DatarecsError: a column is unknown, or a source or the comparison failed; see its `fix`.

    The deadline of one hour, Ctrl-C and SIGTERM end a comparison in the main thread only.
    """
    with explained(), ExitStack() as inputs:
        labels = _texts("names", names)
        check_sources(sources, labels)
        keys, left_out = _texts("key", key), _texts("exclude", exclude)
        listed = _texts("measures", () if measures is None else measures)
        limits = _measures(listed, tolerance, left_out)
        arguments: dict[str, object] = {"key": keys, "measures": listed, "exclude": left_out}
        arguments |= {"tolerance": tolerance, "columns": columns, "names": labels}
        opened = open_sources(sources, labels, inputs)
        flags = Flags(
            sources=opened.places,
            databases=opened.databases,
            keys=keys,
            measures=limits,
            left_out=left_out,
            names=opened.names,
            call=_call(opened.shown, arguments),
        )
        flags = replace(flags, columns=_checked_columns(columns or {}, flags.source_names))
        return _compared(flags, _folder(out), memory)


def _compared(flags: Flags, out: Path | None, memory: str | None) -> Comparison:
    limit = None if memory is None else memory_bytes(str(memory), "memory")
    clock = SystemClock()
    prepared = prepare_question(flags, now=clock.now(), invocation=_SILENT)
    if prepared is None:
        raise TypeError("a call has no job file")
    root = out or Path(tempfile.mkdtemp(prefix=PREFIX))
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


def _folder(out: object) -> Path | None:
    if out is None or isinstance(out, str | PathLike):
        return None if out is None else Path(out)
    raise ArgumentError(f"out is a {type(out).__name__}; write the path of a folder")


def _texts(argument: str, value: object) -> tuple[str, ...]:
    """One text or several."""
    texts = (value,) if isinstance(value, str) else value
    if isinstance(texts, Iterable) and not isinstance(texts, bytes):
        listed = tuple(texts)
        wrong = [each for each in listed if not isinstance(each, str)]
        if not wrong:
            return listed
        value = wrong[0]
    raise ArgumentError(f"{argument} has {value!r}, a {type(value).__name__}; write names as texts")


def _measures(
    measures: tuple[str, ...],
    tolerance: Limit | Mapping[str, Limit] | None,
    left_out: tuple[str, ...],
) -> tuple[MeasureFlag, ...]:
    """Measures with their limits; names are not parsed."""
    if left_out and measures:
        raise ArgumentError("exclude has no effect with measures; leave one of them out")
    if tolerance is None:
        return tuple(map(MeasureFlag, measures))
    if not measures:
        raise ArgumentError("tolerance needs measures: name the columns to compare")
    if not isinstance(tolerance, Mapping):
        return tuple(MeasureFlag(name, _limit(tolerance)) for name in measures)
    unknown = sorted(map(str, set(tolerance) - set(measures)))
    if unknown:
        raise ArgumentError(
            f"tolerance has {', '.join(unknown)}, which measures does not have; measures has "
            f"{', '.join(measures)}"
        )
    return tuple(
        MeasureFlag(name, _limit(tolerance[name]) if name in tolerance else None)
        for name in measures
    )


def _limit(limit: object) -> str:
    match limit:
        case bool():
            raise _not_a_limit(limit)
        case str():
            return limit
        case timedelta():
            return f"PT{limit.total_seconds():f}S"
        case Decimal() | Real():  # numbers of numpy too
            try:
                return f"{Decimal(str(limit)):f}"
            except InvalidOperation:
                raise _not_a_limit(limit) from None
        case _:
            raise _not_a_limit(limit)


def _not_a_limit(limit: object) -> ArgumentError:
    return ArgumentError(f"tolerance {limit!r} is not a number, a percentage or a timedelta")


def _checked_columns(columns: object, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    if not isinstance(columns, Mapping) or not all(
        isinstance(each, Mapping) for each in columns.values()
    ):
        raise ArgumentError(
            "columns has no names by source; write {'exports': {'order_id': 'OrderRef'}}"
        )
    unknown = sorted(map(str, set(columns) - set(names)))
    if unknown:
        raise ArgumentError(
            f"columns names the source {', '.join(unknown)}; the sources are {', '.join(names)}"
        )
    return columns


def _call(sources: Sequence[str], arguments: Mapping[str, object]) -> str:
    """The call as shown in the report."""
    named = [f"{name}={_shown(value)}" for name, value in arguments.items() if _is_set(value)]
    return f"datarecs.compare({', '.join([*sources, *named])})"


def _shown(value: object) -> str:
    """One name as a text, several as a list."""
    if not isinstance(value, tuple):
        return repr(value)
    return repr(value[0] if len(value) == 1 else list(value))


def _is_set(value: object) -> bool:
    """Not by comparison, which numbers of numpy answer with an array."""
    return value is not None and (not isinstance(value, tuple) or bool(value))
