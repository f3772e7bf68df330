"""`datarecs verify`: does a run.json still prove what it says."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import Invocation, Output, UsageFault, current

if TYPE_CHECKING:
    from datarecs_cli.evidence import Checked

Place = Annotated[
    Path, typer.Argument(metavar="RUN.JSON|FOLDER", help="a run.json, or a folder of `compare`")
]


def verify(
    file: Place,
    *,
    source: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=PATH", help="check the pinned files of a source, too"),
    ] = None,
) -> ExitCode:
    """Check hash, counts, closure and stored differences: exit 0 verified, 1 differs, 2 usage."""
    from datarecs_cli.evidence import Checked, NoJsonError, check, evidence_at
    from datarecs_core.comparison.verification import Finding

    invocation = current()
    if invocation.output not in (None, Output.TABLE, Output.TEXT, Output.JSON):
        raise UsageFault(f"-o {invocation.output} is not a form of this command")
    try:
        found = _with_sources(check(evidence_at(file)), source or [])
    except NoJsonError as broken:
        fault = Finding(check="schema", message=str(broken))
        found = Checked(run=None, findings=(fault,), checked=(), not_checked=())
    _print(file, found, invocation)
    return ExitCode.DIFFERENT if found.findings else ExitCode.DONE


def _with_sources(found: "Checked", given: list[str]) -> "Checked":
    from dataclasses import replace

    from datarecs_cli.pinned_files import pinned_findings, unhashed

    if found.run is None:
        return found
    for each in given:
        name, equals, place = each.partition("=")
        if not equals:
            raise UsageFault(f"--source {each}: NAME=PATH is needed")
        more = tuple(pinned_findings(found.run, name, Path(place)))
        sizes_alone = unhashed(found.run, name)
        left = [f"content of {sizes_alone} files of source {name}: pinned without SHA-256"]
        found = replace(
            found,
            findings=(*found.findings, *more),
            checked=(*found.checked, f"pinned files of source {name}"),
            not_checked=(*found.not_checked, *(left if sizes_alone else [])),
        )
    return found


def _print(file: Path, found: "Checked", invocation: Invocation) -> None:
    from datarecs_cli.output import cell, print_json

    proof_hash = found.run.proof_hash if found.run else None
    if invocation.is_json:
        print_json(
            "verify",
            {
                "verified": not found.findings,
                "file": str(file),
                "proof_hash": proof_hash,
                "findings": [
                    {
                        "check": each.check,
                        "stage": each.stage,
                        "source": each.source,
                        "message": each.message,
                    }
                    for each in found.findings
                ],
                "checked": list(found.checked),
                "not_checked": list(found.not_checked),
            },
        )
        return
    print(f"{'DIFFERS' if found.findings else 'VERIFIED'}  {cell(str(file))}")
    for each in found.findings:
        stage = f"stage {cell(each.stage)}: " if each.stage else ""
        print(f"  differs      {each.check}: {stage}{cell(each.message)}")
    for line in found.checked:
        print(f"  checked      {cell(line)}")
    for line in found.not_checked:
        print(f"  not checked  {cell(line)}")
    if proof_hash is not None and not found.findings:
        print(f"  proof        {cell(proof_hash)}")
