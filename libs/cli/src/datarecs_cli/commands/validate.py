"""`datarecs validate` and `datarecs schema`: check and describe declarations without a server."""

import json
from collections.abc import Iterator
from typing import Annotated

import typer

from datarecs_cli.declared_files import check_files, print_findings
from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import Invocation, Output, UsageFault, current
from datarecs_core.resources.resource import Kind
from datarecs_runtime.environment import process_environment
from datarecs_specs.json_schema import explain, fields, json_schema, schema_path
from datarecs_specs.kinds import KINDS, KindEntry, kind_named
from datarecs_specs.reading import JsonSchema

_LIMITS = (("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems"))
KINDS_SCHEMA = "datarecs.cli.kinds/1"


def validate(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE…", help="files, folders, or - for stdin")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="treat warnings as errors")] = False,  # noqa: FBT002  a flag
) -> ExitCode:
    """Check job files and other declarations; show every fault with line and column."""
    if not files:
        raise UsageFault("name a file, a folder, or - for stdin")
    from datarecs_reports.figures import counted

    invocation = in_ci(current())
    read = check_files(files)
    print_findings(read, invocation)
    faults = sum(len(file.faults) for file in read)
    warnings = sum(len(file.warnings) for file in read)
    notes = sum(len(file.findings) for file in read) - faults - warnings
    parts = [counted(len(read), "file"), counted(faults, "error")]
    parts += [counted(warnings, "warning")] if warnings else []
    parts += [counted(notes, "note")] if notes else []
    invocation.say(", ".join(parts))
    return ExitCode.USAGE if faults or (strict and warnings) else ExitCode.DONE


def in_ci(invocation: Invocation) -> Invocation:
    """Use annotations by default in a GitHub Actions run."""
    if invocation.output is None and process_environment().get("GITHUB_ACTIONS") == "true":
        return Invocation(output=Output.GITHUB, quiet=invocation.quiet, verbose=invocation.verbose)
    return invocation


def schema(
    kind: Annotated[
        str | None,
        typer.Argument(metavar="KIND[.path]", help="a kind, or a field such as job.spec.stages"),
    ] = None,
) -> ExitCode:
    """Print the JSON Schema of a kind, or describe one of its fields."""
    if kind is None:
        _print_kinds(current())
        return ExitCode.DONE
    word, *path = kind.split(".")
    entry = kind_named(word)
    if entry is None:
        known = ", ".join(one.kind for one in KINDS.values())
        raise UsageFault(f"unknown kind {word}; known: {known}")
    if path:
        _print_field(entry, path)
    else:
        print(json.dumps(json_schema(entry.kind), indent=2, ensure_ascii=False))
    return ExitCode.DONE


def _print_kinds(invocation: Invocation) -> None:
    if invocation.is_json:
        rows = [
            {"kind": one.kind, "path": one.path, "alias": one.alias, "schema": schema_path(one)}
            for one in KINDS.values()
        ]
        print(json.dumps({"schema": KINDS_SCHEMA, "kinds": rows}))
        return
    width = max(len(kind) for kind in Kind)
    for one in KINDS.values():
        print(f"{one.kind:{width}}  {one.alias:5} {one.path:20} {schema_path(one)}")


def _print_field(entry: KindEntry, path: list[str]) -> None:
    schemas = explain(entry.kind, path)
    if not schemas:
        parent = path[:-1]
        names = [name for one in explain(entry.kind, parent) for name in fields(one)]
        known = ", ".join(dict.fromkeys(names)) or "no fields"
        place = ".".join((entry.kind, *parent))
        raise UsageFault(f"{place} has no field {path[-1]}; it has {known}")
    if current().is_json:
        print(json.dumps(schemas, indent=2, ensure_ascii=False))
        return
    for one in schemas:
        print(".".join((entry.kind, *path)))
        for name, value in _facts(one):
            print(f"  {name:12} {value}")


def _facts(schema: JsonSchema) -> Iterator[tuple[str, str]]:
    for member in ("description", "type", "enum", "const", "default", "examples"):
        if member in schema:
            yield member, _shown(schema[member])
    for low, high in _LIMITS:
        if low in schema or high in schema:
            yield "limits", f"{schema.get(low, 0)} to {schema.get(high, 'any')}"
    if inside := fields(schema):
        yield "fields", ", ".join(inside)


def _shown(value: object) -> str:
    if isinstance(value, list | tuple) and not any(isinstance(one, dict) for one in value):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value)
