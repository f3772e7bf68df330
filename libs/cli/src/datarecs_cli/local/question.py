"""The job of a local comparison: from a file, or made from paths and flags.

Both use the decoder of declarations, so the rules of a field also hold for its flag; faults name
the flag. A call of `datarecs.compare` has the same flags as arguments, and faults name these.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from datarecs_application.captured_tables import names_a_time
from datarecs_application.comparison import Question
from datarecs_cli.declared_files import (
    STDIN,
    DeclaredFile,
    check_files,
    print_findings,
    refuse_faults,
)
from datarecs_cli.error_text import plain
from datarecs_cli.invocation import Invocation, UsageFault
from datarecs_cli.local.as_of import as_of_faults, job_as_of, stored_elsewhere_faults
from datarecs_cli.local.captured import ServerCatalogue
from datarecs_cli.local.column_names import MeasureFlag, name_text
from datarecs_cli.local.connections import ServerConnections
from datarecs_cli.local.database_address import DatabaseAddress, connection_names
from datarecs_cli.local.faults import JobRefusedError, QuestionFault, QuestionRefusedError
from datarecs_cli.local.places import is_tab_separated, kind_of, located, located_together, names_of
from datarecs_core.captures.catalogued import CataloguedTable
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.faults import Fault, dotted, pointer
from datarecs_core.errors.spec import SpecCode
from datarecs_core.hashing import canonical_json
from datarecs_core.jobs.definition import ReconciliationJob, Source
from datarecs_core.jobs.literals import parameters_written_in
from datarecs_core.jobs.parameters import parameters_document, resolve_parameters
from datarecs_core.jobs.spec_hash import spec_hash
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import Connection, ConnectionType, FilesConfig
from datarecs_specs.documents import decode_json
from datarecs_specs.together import connections_of

JOB_ENDINGS = (".yaml", ".yml", ".json")
STAGE = "rows"
_DURATION, _PERCENT = "P", "%"
_ARGUMENTS = {"measure": "measures", "except": "exclude"}
"""Arguments of a call with another name than their flag."""
_ZONE_IN_TABLE = (
    "give the column of the table a zone, such as dt.tz_localize('UTC') of pandas or "
    "dt.replace_time_zone('UTC') of Polars"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """The command line as typed, or the arguments of a call."""

    sources: tuple[str, ...]
    """Paths, and addresses without passwords."""
    databases: Mapping[int, DatabaseAddress] = field(default_factory=dict)
    """By position: the sources that are tables or queries of a database."""
    keys: tuple[str, ...] = ()
    measures: tuple[MeasureFlag, ...] = ()
    left_out: tuple[str, ...] = ()
    parameters: Mapping[str, object] = field(default_factory=dict)
    as_of: str | None = None
    """A time with its offset: sources are read as they were."""
    names: tuple[str, ...] = ()
    """Names of the sources; empty: those of their files and tables."""
    columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By name of a source: its physical columns by logical column, if they differ."""
    call: str = ""
    """The call of a program, for people; empty for a command line."""

    @property
    def source_names(self) -> tuple[str, ...]:
        """A name per source."""
        return self.names or tuple(
            names_of(
                [
                    self.databases[at].place if at in self.databases else path
                    for at, path in enumerate(self.sources)
                ]
            )
        )

    def label(self, index: int) -> str:
        """A source in messages."""
        return self.names[index] if self.names else self.sources[index]

    def argument(self, flag: str, value: str) -> str:
        """A flag, or the argument of a call, with its value in messages."""
        return f"{_ARGUMENTS.get(flag, flag)} {value}" if self.call else f"--{flag} {value}"

    @property
    def is_job(self) -> bool:
        """Whether the sources are one job file."""
        first = self.sources[0]
        return len(self.sources) == 1 and (first == STDIN or first.endswith(JOB_ENDINGS))

    @property
    def command(self) -> str:
        """A command line with the same meaning, or the call."""
        if self.call:
            return self.call
        words = ["datarecs", "compare", *self.sources]
        words += ["--key", ",".join(map(name_text, self.keys))] if self.keys else []
        for flag, texts in (
            ("--measure", map(str, self.measures)),
            ("--except", map(name_text, self.left_out)),
        ):
            words += [word for text in texts for word in (flag, text)]
        for name, value in self.parameters.items():
            values = value if isinstance(value, list) else [value]
            words += [word for each in values for word in ("--param", f"{name}={each}")]
        words += ["--as-of", self.as_of] if self.as_of is not None else []
        return shlex.join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedQuestion:
    """A job with the data to open its sources."""

    question: Question
    roots: Mapping[str, Path]
    """By source: the base folder of its path, or of the local path of its connection."""
    connections: Mapping[str, Connection]
    """The connections of the job file or of addresses, by name."""
    flags: Flags
    file: DeclaredFile | None = None
    """The job file."""
    secrets: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    """By connection of an address: its secrets. Others are resolved from their references."""
    catalogue: ServerCatalogue | None = None
    """Of a job file: knows the earlier files of captured connections."""
    base: Path = field(default_factory=Path.cwd)
    """The folder that relative paths start from."""

    def captured_table(self, source: Source) -> CataloguedTable | None:
        """The files of a source that reads an earlier time; None for any other source.

        Raises what `ServerCatalogue.table` raises.
        """
        if self.catalogue is None or not names_a_time(source):
            return None
        connection = self.connections.get(source.connection or "")
        if connection is None or not isinstance(connection.config, FilesConfig):
            return self.catalogue.table(source, None, None)
        folder = self.base / connection.config.root
        return self.catalogue.table(source, self.roots.get(source.name), folder)

    def refusal(self, faults: Sequence[Fault]) -> DatarecsError:
        """The error of a plan with faults: each at its line of the job file, or at its flag."""
        if self.file is not None:
            job = self.question.job.name
            documents = tuple(
                one.with_faults(faults)
                if isinstance(one.spec, ReconciliationJob) and one.spec.name == job
                else one
                for one in self.file.documents
            )
            return JobRefusedError(replace(self.file, documents=documents))
        return QuestionRefusedError(
            [
                QuestionFault(fault.code, self.where(fault), fault.message, self._hint(fault))
                for fault in faults
            ]
        )

    def _hint(self, fault: Fault) -> str:
        """The fix without a job file, which alone declares zones."""
        if fault.code is not SpecCode.ZONE_REQUIRED:
            return fault.hint
        in_job = "in a job, which `datarecs init` writes, and compare with it"
        declared = f"{fault.hint} {in_job}"
        return f"{_ZONE_IN_TABLE}; for a file {declared}" if self.flags.call else declared

    def where(self, fault: Fault) -> str:
        """A fault's place as a flag of the command line, or as a path of the job file."""
        return _where(self.flags, pointer(fault.path), dotted(fault.shown_path))


def prepare_question(
    flags: Flags, *, now: datetime, invocation: Invocation
) -> PreparedQuestion | None:
    """Prepare the job; None if a job file has faults, which are then printed.

    Raises:
        UsageFault: wrong usage, or a file is missing.
        QuestionRefusedError: flags or parameters with faults.
    """
    prepared = _from_file(flags, now, invocation) if flags.is_job else _without_file(flags, now)
    if prepared is not None:
        job = prepared.question.job
        faults = list(stored_elsewhere_faults(job) if flags.as_of is None else as_of_faults(job))
        if faults:
            _show_or_raise(prepared.refusal(faults), invocation)
            return None
    return prepared


def _show_or_raise(error: DatarecsError, invocation: Invocation) -> None:
    """Print the faults of a job file; others are raised."""
    if not isinstance(error, JobRefusedError):
        raise error
    print_findings([error.file], invocation)


def _without_file(flags: Flags, now: datetime) -> PreparedQuestion:
    job = _from_flags(flags)
    names = connection_names(flags.databases)
    connections = {
        names[at]: Connection(type=ConnectionType.POSTGRES, config=address.config)
        for at, address in flags.databases.items()
    }
    secrets = {names[at]: {"password": one.login} for at, one in flags.databases.items()}
    prepared = _prepare(flags, job, connections, now=now, base=Path.cwd())
    return replace(prepared, secrets=secrets)


def _from_file(flags: Flags, now: datetime, invocation: Invocation) -> PreparedQuestion | None:
    if flags.keys or flags.measures or flags.left_out:
        raise UsageFault("--key, --measure, --except are for files; declare them in the job file")
    name = flags.sources[0]
    elsewhere = ServerConnections(invocation)
    files = check_files([name], lookup=elsewhere.find)
    if refuse_faults(files, invocation):
        return None
    documents = [one for file in files for one in file.documents]
    jobs = [
        (file, one.spec)
        for file in files
        for one in file.documents
        if isinstance(one.spec, ReconciliationJob)
    ]
    if len(jobs) != 1:
        raise UsageFault(
            f"{name} declares {len(jobs)} jobs, but a comparison takes one; write each job to a "
            "separate file"
        )
    known = {**elsewhere.connections, **connections_of(documents)}
    connections = {connection: one for (_, connection), one in known.items()}
    base = Path.cwd() if name == STDIN else Path(name).absolute().parent
    file, job = jobs[0]
    prepared = _prepare(flags, job, connections, now=now, base=base)
    return replace(prepared, file=file, base=base, catalogue=ServerCatalogue(invocation=invocation))


def _from_flags(flags: Flags) -> ReconciliationJob:
    if len(flags.sources) < 2:  # noqa: PLR2004  a comparison
        raise UsageFault("compare needs two or more sources, or one job file in .yaml")
    if flags.parameters:
        raise UsageFault("--param is only for job files; files have no parameters")
    if flags.left_out and flags.measures:
        raise UsageFault("--except has no effect with --measure; leave one of them out")
    decoded = decode_json(_declaration(flags))
    if decoded.faults:
        # The name of the job consists of names of sources: their faults say more.
        faults = [one for one in decoded.faults if one.pointer != "/metadata/name"]
        raise QuestionRefusedError(
            [
                QuestionFault(one.code, _where(flags, one.pointer, one.path), one.message, one.hint)
                for one in faults or decoded.faults
            ]
        )
    _, spec = decoded.require()
    if not isinstance(spec, ReconciliationJob):
        raise TypeError("the declaration of a job is a job")
    return spec


def _declaration(flags: Flags) -> dict[str, object]:
    """The job of the flags: one row stage; without --measure every column is compared."""
    names = flags.source_names
    stage: dict[str, object] = {"name": STAGE, "type": "row", "dimensions": list(flags.keys)}
    if flags.measures:
        stage["measures"] = [_measure(measure) for measure in flags.measures]
    else:
        stage |= {"measures": "*", "except": list(flags.left_out)}
    connections = connection_names(flags.databases)
    sources = [
        _table(name, flags.databases[at], connections[at])
        if at in flags.databases
        else _file(name, path)
        for at, (name, path) in enumerate(zip(names, flags.sources, strict=True))
    ]
    for name, source in zip(names, sources, strict=True):
        if name in flags.columns:
            source["columns"] = dict(flags.columns[name])
    return {
        "apiVersion": "datarecs.io/v1",
        "kind": "ReconciliationJob",
        "metadata": {"name": "-vs-".join(names[:2])},
        "spec": {"sources": sources, "stages": [stage]},
    }


def _table(name: str, address: DatabaseAddress, connection: str) -> dict[str, object]:
    origin = {"query": address.query} if address.query else {"relation": address.relation}
    return {"name": name, "kind": SourceKind.POSTGRES.value, "connection": connection, **origin}


def _file(name: str, path: str) -> dict[str, object]:
    kind = kind_of(path)
    _, below = located(path, Path.cwd())
    source: dict[str, object] = {"name": name, "kind": kind.value, "path": below}
    if kind is SourceKind.CSV:
        tabs = {"delimiter": "\t"} if is_tab_separated(path) else {}
        source["options"] = {"multiline": True, **tabs}
    return source


def _measure(measure: MeasureFlag) -> dict[str, object]:
    name, limit = measure
    if limit is None:
        return {"name": name}
    tolerance = {"type": "ABSOLUTE", "value": limit}
    if limit.endswith(_PERCENT):
        tolerance = {"type": "PERCENTAGE", "value": limit.removesuffix(_PERCENT).rstrip()}
    elif limit.startswith(_DURATION):
        tolerance = {"type": "DURATION", "value": limit}
    return {"name": name, "tolerances": [tolerance]}


def _where(flags: Flags, place: str, path: str) -> str:
    """The flag of a field of the made job; for a job file the path of the field."""
    if flags.is_job:
        return f"{flags.sources[0]} {path}".strip()
    parts = place.strip("/").split("/")
    match parts:
        case ["spec", "sources", index, *_] if index.isdecimal():
            return flags.label(int(index))
        case ["spec", "stages", _, "dimensions", index, *_]:
            return flags.argument("key", flags.keys[int(index)])
        case ["spec", "stages", _, "measures", *index]:
            return (
                flags.argument("measure", str(flags.measures[int(index[0])]))
                if index
                else "columns"
            )
        case ["spec", "stages", _, "except", index, *_]:
            return flags.argument("except", flags.left_out[int(index)])
        case _:
            return path


def _prepare(
    flags: Flags,
    job: ReconciliationJob,
    connections: Mapping[str, Connection],
    *,
    now: datetime,
    base: Path,
) -> PreparedQuestion:
    if flags.as_of is not None:
        job = job_as_of(job, flags.as_of)
    stored = _parameters(flags, job, now)
    places = {
        source.name: _place(flags, source, index, connections, base)
        for index, source in enumerate(job.sources)
        if source.path is not None
    }
    sources = tuple(
        replace(source, **places[source.name][1]) if source.name in places else source
        for source in job.sources
    )
    digest = spec_hash(job)
    question = Question(
        job=parameters_written_in(replace(job, sources=sources), stored),
        job_uid=UUID(hex=digest.removeprefix("sha256:")[:32]),
        spec_hash=digest,
        parameters=tuple(
            sorted((name, canonical_json(value).decode()) for name, value in stored.items())
        ),
    )
    roots = dict.fromkeys((source.name for source in job.sources), base)
    roots |= {name: root for name, (root, _) in places.items()}
    return PreparedQuestion(question=question, roots=roots, connections=connections, flags=flags)


def _place(
    flags: Flags, source: Source, index: int, connections: Mapping[str, Connection], base: Path
) -> tuple[Path, dict[str, Any]]:
    """Root, and paths below it: relative to the working folder, the job file, or the connection."""
    if not flags.is_job:
        root, path = located(flags.sources[index], base)
        return root, {"path": path}
    connection = connections.get(source.connection or "")
    if connection is not None and isinstance(connection.config, FilesConfig):
        base = base / connection.config.root
    tables = source.tables
    root, (path, *others) = located_together(
        [source.path or "", *(table.path for table in tables.values())], base
    )
    below = {
        name: replace(table, path=other)
        for (name, table), other in zip(tables.items(), others, strict=True)
    }
    return root, {"path": path, "tables": below}


def _parameters(
    flags: Flags, job: ReconciliationJob, now: datetime
) -> Mapping[str, str | tuple[str, ...]]:
    values, faults = resolve_parameters(
        job.parameters, flags.parameters, moment=now, zone=ZoneInfo(job.timezone)
    )
    if faults:
        raise QuestionRefusedError(
            [
                QuestionFault(
                    fault.code, f"--param {plain(str(fault.path[1]))}", fault.message, fault.hint
                )
                for fault in faults
            ]
        )
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in parameters_document(values).items()
    }
