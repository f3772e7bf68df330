"""`datarecs errors`: the catalogue of error codes, as text or JSON."""

import json
from importlib import import_module
from pkgutil import iter_modules
from textwrap import fill
from typing import Annotated

import typer

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import Output, UsageFault, current
from datarecs_cli.output import Column, print_list
from datarecs_core import errors as families
from datarecs_core.errors.base import ErrorCode

SCHEMA = "datarecs.cli.errors/1"
_COLUMNS = (
    Column(title="CODE", member="docs_id"),
    Column(title="NAME", member="name"),
    Column(title="MEANING", member="meaning"),
    Column(title="CAUSES", member="causes"),
    Column(title="REMEDY", member="remedy"),
)


def catalogue() -> dict[str, ErrorCode]:
    """Every published code by docs id, in order."""
    codes: dict[str, ErrorCode] = {}
    for module in iter_modules(families.__path__, f"{families.__name__}."):
        for value in vars(import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, ErrorCode):
                codes |= {code.docs_id: code for code in value}
    return dict(sorted(codes.items()))


def errors(
    code: Annotated[
        str | None, typer.Argument(metavar="CODE", help="DR1004 or UNKNOWN_COLUMN; default all")
    ] = None,
) -> ExitCode:
    """Show what an error code means, what causes it and what to do."""
    known = catalogue()
    if code is None:
        chosen = list(known.values())
    else:
        wanted = code.upper()
        chosen = [one for one in known.values() if wanted in (one.docs_id, one.name)]
        if not chosen:
            raise UsageFault(f"no error has the code {code}; list all with: datarecs errors")
    if current().output in (Output.JSON, Output.JSONL):
        print(json.dumps({"schema": SCHEMA, "errors": [_as_data(one) for one in chosen]}))
    elif current().output not in (None, Output.TABLE, Output.TEXT):
        print_list("errors", _COLUMNS, [_as_data(one) for one in chosen], current())
    elif code is None:
        print("\n".join(f"{one.docs_id}  {one.name:30} {one.entry.meaning}" for one in chosen))
    else:
        print("\n\n".join(_page(one) for one in chosen))
    return ExitCode.DONE


def _as_data(code: ErrorCode) -> dict[str, object]:
    entry = code.entry
    return {
        "docs_id": entry.docs_id,
        "name": code.name,
        "meaning": entry.meaning,
        "causes": entry.causes,
        "remedy": entry.remedy,
        "retryable": entry.retryable,
        "run_code": entry.run_code,
    }


def _page(code: ErrorCode) -> str:
    entry = code.entry
    again = "yes" if entry.retryable else "no"
    parts = [
        f"{entry.docs_id} {code.name}",
        _wrapped("what", entry.meaning),
        _wrapped("why", entry.causes),
        _wrapped("fix", entry.remedy),
        f"  retry {again}",
    ]
    if entry.run_code is not None:
        parts.append(f"  run   {entry.run_code}")
    return "\n".join(parts)


def _wrapped(label: str, text: str) -> str:
    return fill(
        text,
        width=96,
        initial_indent=f"  {label:5} ",
        subsequent_indent=" " * 8,
        break_on_hyphens=False,
    )
