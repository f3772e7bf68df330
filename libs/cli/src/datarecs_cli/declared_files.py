"""Checks files of declarations for `validate`, `plan`, `compare`, `apply` and `run`.

One module, so that all of them refuse the same documents with the same messages.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from datarecs_cli.error_text import plain
from datarecs_cli.invocation import Invocation, Output, UsageFault
from datarecs_core.resources.connection import Connection
from datarecs_events.event_types import FILTERED_TYPES
from datarecs_specs.documents import Decoded, decode_yaml
from datarecs_specs.findings import MAX_SHOWN, Finding, as_lines, headline
from datarecs_specs.kinds import KINDS
from datarecs_specs.reading import Surroundings
from datarecs_specs.together import ConnectionKey, judged_together, undeclared_connections

STDIN = "-"
_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
_DATA = re.compile(r"\.(csv|tsv|parquet|pq|jsonl|ndjson|xlsx?)(\.(gz|zst|zstd))?$", re.IGNORECASE)
SCHEMA = "datarecs.cli.validate/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredFile:
    """One file and everything in it."""

    name: str
    """As typed by the user; `-` for stdin."""
    text: str
    documents: tuple[Decoded, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(one for document in self.documents for one in document.findings)

    @property
    def faults(self) -> tuple[Finding, ...]:
        return tuple(one for one in self.findings if not one.warning)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Findings without notes, because a note is about another place."""
        return tuple(one for one in self.findings if one.warning and not one.note)


Lookup = Callable[[Sequence[ConnectionKey]], Mapping[ConnectionKey, Connection]]
"""Finds connections that no file declares."""


def check_files(
    paths: Sequence[str], *, on_server: bool = False, lookup: Lookup | None = None
) -> tuple[DeclaredFile, ...]:
    """Read the named files, all YAML and JSON files of named folders, and stdin for `-`.

    Args:
        paths: as they were typed.
        on_server: the documents are for a server, which reads no paths of this machine.
        lookup: finds further connections, if the command opens the sources itself.

    Raises:
        UsageFault: a path does not exist or cannot be read, or a folder has no such file.
    """
    around = Surroundings(on_server=on_server, event_types=FILTERED_TYPES)
    files = [file for path in paths for file in _loaded(path, around)]
    documents = [one for file in files for one in file.documents]
    if any(file.faults for file in files):
        lookup = None  # nothing will be opened
    missing = undeclared_connections(documents) if lookup else ()
    known = lookup(missing) if lookup and missing else {}
    judged = iter(judged_together(documents, known=known, opens_sources=lookup is not None))
    return tuple(
        replace(file, documents=tuple(islice(judged, len(file.documents)))) for file in files
    )


def refuse_faults(files: Sequence[DeclaredFile], invocation: Invocation) -> bool:
    """Print all findings and return True if a file has a fault; else print only warnings."""
    if any(file.faults for file in files):
        print_findings(files, invocation)
        return True
    for file in files:
        for line in as_lines(file.warnings, file=plain(file.name), text=file.text):
            invocation.say(line)
    return False


def in_apply_order(files: Sequence[DeclaredFile]) -> tuple[Decoded, ...]:
    """Documents with referenced kinds first; within one kind in the order of the files."""
    documents = [one for file in files for one in file.documents if one.declared is not None]
    return tuple(sorted(documents, key=_order))


def _order(document: Decoded) -> int:
    return KINDS[document.declared.kind].order if document.declared else 0


def _loaded(path: str, surroundings: Surroundings) -> Iterator[DeclaredFile]:
    """The file, or those of a folder that still exist when they are read."""
    if path == STDIN or not Path(path).is_dir():
        yield _load(path, surroundings)
        return
    is_empty = True
    for name in _names_below(path):
        try:
            yield _load(name, surroundings)
        except UsageFault as fault:
            if not isinstance(fault.__cause__, FileNotFoundError):
                raise
        else:
            is_empty = False
    if is_empty:
        raise UsageFault(f"{path}: the folder has no .yaml, .yml or .json file")


def _names_below(path: str) -> list[str]:
    places = (Path(folder, name) for folder, _, names in os.walk(path) for name in names)
    return sorted(str(one) for one in places if one.suffix in _SUFFIXES and one.is_file())


def _load(name: str, surroundings: Surroundings) -> DeclaredFile:
    data = _bytes(name)
    return DeclaredFile(
        name="<stdin>" if name == STDIN else name,
        text=data.decode("utf-8", errors="replace"),
        documents=decode_yaml(data, surroundings=surroundings),
    )


def _bytes(name: str) -> bytes:
    """The bytes, cut just above the size limit, at which decoding refuses them."""
    from datarecs_specs.yaml_source import MAX_BYTES

    if name == STDIN:
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    if _DATA.search(name):
        raise UsageFault(
            f"{name} is a file of data, not a declaration; name a job in .yaml, .yml or .json, or"
            " compare the file itself with: datarecs compare"
        )
    try:
        with Path(name).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as cause:
        raise UsageFault(f"{name}: {cause.strerror or 'cannot be read'}") from cause


def print_findings(files: Sequence[DeclaredFile], invocation: Invocation) -> None:
    """Print all findings on stdout: lines with carets, annotations, or one JSON document."""
    if invocation.output is Output.JSON:
        print(json.dumps({"schema": SCHEMA, "files": [_as_json(file) for file in files]}))
        return
    for file in files:
        for line in _lines(file, invocation.output):
            print(line)


def _lines(file: DeclaredFile, output: Output | None) -> list[str]:
    if output is Output.JSONL:
        return [json.dumps(_finding(file, one)) for one in file.findings]
    if output is Output.GITHUB:
        return [annotation(file.name, one) for one in file.findings[:MAX_SHOWN]]
    return as_lines(file.findings, file=plain(file.name), text=file.text)


def _as_json(file: DeclaredFile) -> dict[str, object]:
    return {
        "file": file.name,
        "documents": len(file.documents),
        "findings": [_finding(file, one) for one in file.findings],
    }


def _finding(file: DeclaredFile, finding: Finding) -> dict[str, object]:
    return {
        "file": file.name,
        "document": finding.document,
        "severity": finding.severity,
        "path": finding.path,
        **finding.as_json(),
    }


def annotation(file: str, finding: Finding) -> str:
    """A line that code hosts show as an annotation at the place; separators are escaped."""
    level = "notice" if finding.note else finding.severity
    properties = {
        "file": file,
        "line": str(finding.line or 1),
        "col": str(finding.column or 1),
        "title": finding.code.docs_id,
    }
    listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{level} {listed}::{annotation_text(headline(finding, file))}"


def annotation_text(text: str) -> str:
    """A text as the message of an annotation, with command characters escaped."""
    return plain(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return annotation_text(text).replace(":", "%3A").replace(",", "%2C")
