"""A sample of one source: columns with types and values, with limits.

This module reads text files without their connectors, which read every value of a file to infer
types; connectors read databases and Parquet files up to the last row of the sample.
"""

import io
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from itertools import islice
from pathlib import Path
from tempfile import NamedTemporaryFile

from datarecs_application.ports.comparing import Connector
from datarecs_cli.inference.csv_form import CsvForm, can_name, csv_form_of
from datarecs_cli.invocation import UsageFault
from datarecs_cli.local.places import kind_of, located
from datarecs_connectors.column_inference import ColumnInference
from datarecs_connectors.csv_options import CsvOptions
from datarecs_connectors.csv_values import ColumnValues, column_rules
from datarecs_connectors.errors import CorruptSourceError
from datarecs_connectors.recoding import Encoding
from datarecs_connectors.registry import Surroundings, open_connector, open_tree
from datarecs_connectors.source_trees import SourceTree
from datarecs_connectors.text_files import UnpackedBytes, open_text
from datarecs_core.comparison.planning.scan import PinnedFile, Scan, ScanColumn
from datarecs_core.comparison.values.value_formats import NumberFormat, strict_reader
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.types import CanonicalType
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import Connection
from datarecs_runtime.clock import SystemClock

MAX_ROWS, MAX_BYTES = 50_000, 32 * 1024 * 1024
_LIMIT = 2**40
_STATEMENT = timedelta(minutes=1)


@dataclass(frozen=True, kw_only=True)
class SampleColumn:
    """One column; data derived from its values is cached, since every pair of columns uses it."""

    name: str
    type: CanonicalType
    values: tuple[object, ...]
    """The value of each row; None is NULL."""

    @property
    def distinct(self) -> int:
        return len(self.distinct_values)

    @cached_property
    def distinct_values(self) -> frozenset[object]:
        """Values without NULL; equal numbers of any type are one, nested values are their text."""
        return frozenset(map(hashable, self.filled))

    @cached_property
    def filled(self) -> list[object]:
        return [each for each in self.values if each is not None]


def hashable(value: object) -> object:
    """Nested values as text; booleans differ from equal numbers."""
    if isinstance(value, bool):
        return ("bool", value)
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The sample of one source."""

    source: Source
    columns: tuple[SampleColumn, ...]
    rows: int
    is_whole: bool
    form: CsvForm | None = None
    files: int = 1
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = field(default=())
    """Columns with a type that cannot be compared, or a name that is repeated or not usable."""


def sample_of(
    place: str, source: Source, connection: Connection | None, secrets: dict[str, str]
) -> Sample:
    """Read a sample.

    Raises:
        UsageFault: nothing to compare, such as an empty file.
        DatarecsError: the source cannot be read.
    """
    if source.kind is SourceKind.CSV:
        return _of_csv(place, source)
    connector = open_connector(
        source, connection, secrets, surroundings=_surroundings(located(place, Path.cwd())[0])
    )
    with closing(connector):
        if source.kind is SourceKind.JSON:
            return _of_json(place, source)
        return _of_connector(source, connector, place)


def source_of(place: str, name: str) -> Source:
    """A file source of a path, as in `compare`.

    Raises UsageFault if there is no file, or a file of an unsupported kind.
    """
    return Source(name=name, kind=kind_of(place), path=located(place, Path.cwd())[1])


def _surroundings(root: Path) -> Surroundings:
    return Surroundings(
        roots=(root,),
        policy=Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL),
        now=SystemClock().now,
        any_path=True,
    )


def _of_connector(source: Source, connector: Connector, place: str) -> Sample:
    pinned = connector.pin(source)
    with closing(pinned):
        schema = connector.describe(source, pinned.pin)
        names = [each.name for each in schema.columns]
        single = [each for each in schema.columns if names.count(each.name) == 1]
        repeated = {each for each in names if names.count(each) > 1}
        undelivered = {name for name, _ in schema.undelivered}
        unnamed = {each for each in names if not can_name(each)}
        columns = [each for each in single if each.name not in undelivered | unnamed]
        if not columns:
            raise UsageFault(f"{place}: no column can be compared")
        scan = Scan(
            source=source.name,
            index=0,
            kind=source.kind,
            connection=source.connection,
            relation=source.relation,
            path=source.path,
            columns=tuple(
                ScanColumn(name=each.name, physical=each.name, type=each.type) for each in columns
            ),
            schema=schema,
            pin=pinned.pin,
            limits=source.limits,
        )
        rows = list(islice(connector.rows(scan), MAX_ROWS + 1))
    return Sample(
        source=source,
        columns=tuple(
            SampleColumn(
                name=each.name, type=each.type, values=tuple(row[at] for row in rows[:MAX_ROWS])
            )
            for at, each in enumerate(columns)
        ),
        rows=min(len(rows), MAX_ROWS),
        is_whole=len(rows) <= MAX_ROWS,
        left_out=tuple(sorted(repeated | undelivered | unnamed)),
    )


def _of_json(place: str, source: Source) -> Sample:
    """A file with the first lines, because its reader may read every line."""
    (first, *more), tree = _files(place, source)
    with (
        open_text(tree, first, UnpackedBytes(limit=_LIMIT)) as text,
        NamedTemporaryFile(suffix=".jsonl") as copy,
    ):
        is_whole = not more
        for count, line in enumerate(iter(lambda: text.readline(MAX_BYTES), b"")):
            if count == MAX_ROWS or copy.tell() > MAX_BYTES:
                is_whole = False
                break
            copy.write(line)
        copy.flush()
        one = Source(name=source.name, kind=source.kind, path=copy.name)
        connector = open_connector(one, None, {}, surroundings=_surroundings(Path("/")))
        sample = _of_connector(one, connector, place)
    return Sample(
        source=source,
        columns=sample.columns,
        rows=sample.rows,
        is_whole=is_whole and sample.is_whole,
        files=1 + len(more),
        left_out=sample.left_out,
    )


def _files(place: str, source: Source) -> tuple[tuple[PinnedFile, ...], SourceTree]:
    root, below = located(place, Path.cwd())
    tree = open_tree(source, surroundings=_surroundings(root))
    with closing(tree.pin(below)) as pinned:
        return pinned.pin.files, tree


def _of_csv(place: str, source: Source) -> Sample:
    (first, *more), tree = _files(place, source)
    encoding, lines, is_all = _lines(tree, first)
    form = csv_form_of(lines, is_whole=is_all)
    if encoding is not Encoding.UTF_8:
        form.choose("encoding", encoding.value, "its bytes are not UTF-8")
    if not form.names or not any(form.names):
        raise UsageFault(f"{place}: the file is empty; write a header line, or name another file")
    names = form.names
    values = {
        name: [row[at] if at < len(row) else "" for row in form.rows]
        for at, name in enumerate(names)
        if names.count(name) == 1 and can_name(name)
    }
    if not values:
        fault = (
            "all columns have the same name"
            if any(map(can_name, names))
            else "no usable column name"
        )
        raise UsageFault(f"{place}: {fault}; correct the header")
    options = CsvOptions.model_validate(form.options)
    return Sample(
        source=source,
        columns=tuple(_typed(name, texts, options) for name, texts in values.items()),
        rows=len(form.rows),
        is_whole=is_all and not more,
        form=form,
        files=1 + len(more),
        left_out=tuple(sorted(set(names) - set(values))),
    )


def _typed(name: str, texts: Sequence[str], options: CsvOptions) -> SampleColumn:
    nulls = {"", *options.null_words}
    inference = ColumnInference(rules=column_rules(options, name, None))
    seen: set[str] = set()
    for row, text in enumerate(texts):
        if text not in nulls and text not in seen:
            seen.add(text)
            inference.see(text, row)
    column = inference.column()
    numbers = NumberFormat(options.decimal, options.thousands)
    reader = ColumnValues(
        kind=column.type, strict=strict_reader(column.type, numbers, column.date_format)
    )
    values = {text: reader.value(text.encode().decode("latin-1")) for text in seen}
    return SampleColumn(
        name=name, type=column.type, values=tuple(values.get(text) for text in texts)
    )


def _lines(tree: SourceTree, file: PinnedFile) -> tuple[Encoding, list[str], bool]:
    """Encoding, lines, and whether they are the whole file."""
    wide, raw, is_all = _bytes(tree, file)
    encoding, text = (wide, raw.decode()) if wide is not Encoding.UTF_8 else _decoded(raw)
    if "\0" in text:
        raise CorruptSourceError(
            tree.source, f"{file.path} has NUL bytes, so it is not text; name a text file"
        )
    lines = list(io.StringIO(text, newline=""))
    if len(lines) > MAX_ROWS:
        return encoding, lines[:MAX_ROWS], False
    return encoding, lines if is_all else lines[:-1], is_all


def _decoded(raw: bytes) -> tuple[Encoding, str]:
    """UTF-8, else Western European; the last character of a sample may be incomplete."""
    try:
        return Encoding.UTF_8, raw.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        if len(raw) >= MAX_BYTES and cause.start > len(raw) - 4:
            return Encoding.UTF_8, raw[: cause.start].decode("utf-8-sig")
    try:
        return Encoding.WINDOWS_1252, raw.decode("windows-1252")
    except UnicodeDecodeError:
        return Encoding.LATIN_1, raw.decode("iso-8859-1")


def _bytes(tree: SourceTree, file: PinnedFile) -> tuple[Encoding, bytes, bool]:
    """The first bytes as UTF-8, the encoding if the job must declare it, and whether all."""
    encoding = Encoding.UTF_8
    try:
        text = open_text(tree, file, UnpackedBytes(limit=_LIMIT))
    except CorruptSourceError as error:
        if error.encoding is None:
            raise
        encoding = Encoding(error.encoding)
        text = open_text(tree, file, UnpackedBytes(limit=_LIMIT), encoding)
    with text:
        raw = text.read(MAX_BYTES + 1)
    return encoding, raw[:MAX_BYTES], len(raw) <= MAX_BYTES
