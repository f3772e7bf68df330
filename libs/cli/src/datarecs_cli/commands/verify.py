"""`datarecs verify`: checks that a result is complete and unaltered."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import Invocation, Output, UsageFault, current

if TYPE_CHECKING:
    from collections.abc import Sequence

    from datarecs_cli.evidence import Checked, Evidence
    from datarecs_core.comparison.proof.verification import Finding
    from datarecs_core.comparison.results.row_digests import Leaf

Place = Annotated[
    Path,
    typer.Argument(metavar="RUN.JSON|FOLDER", help="a run.json, or a result folder of `compare`"),
]


def verify(
    file: Place,
    *,
    digests: Annotated[
        Path | None,
        typer.Option(help="row digests of `proof: rows`; default the file beside run.json"),
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option(help="file with the key, 64 hexadecimal digits; not needed for `compare`"),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=PATH", help="also check the files and rows of this source"),
    ] = None,
) -> ExitCode:
    """Check that a run.json or a result folder is complete and unaltered.

    It checks the hash, the counts, that every row is counted (closure), and the differences.
    """
    from datarecs_cli.evidence import Checked, NoJsonError, check, evidence_at
    from datarecs_cli.row_proof import key_of, row_proof
    from datarecs_core.comparison.proof.verification import Finding

    invocation = current()
    if invocation.output not in (None, Output.TABLE, Output.TEXT, Output.JSON):
        raise UsageFault(f"-o {invocation.output} is not a format of this command")
    try:
        evidence = evidence_at(file)
        outcome = check(evidence)
        sealed = outcome.run
        if sealed is not None:
            rows = row_proof(sealed, evidence.path, digests)
            outcome = _more(outcome, rows.findings, rows.checked, rows.not_checked)
            key = key_of(sealed, key_file)
            for each in source or []:
                name, equals, place = each.partition("=")
                if not equals:
                    raise UsageFault(f"--source {each}: write NAME=PATH")
                outcome = _with_files(outcome, name, Path(place))
                if rows.leaves:
                    outcome = _with_data(outcome, evidence, rows.leaves, key, (name, Path(place)))
    except NoJsonError as broken:
        fault = Finding(check="schema", message=str(broken))
        outcome = Checked(run=None, findings=(fault,), checked=(), not_checked=())
    _print(file, outcome, invocation)
    return ExitCode.DIFFERENT if outcome.findings else ExitCode.DONE


def _with_files(outcome: "Checked", name: str, place: Path) -> "Checked":
    from datarecs_cli.pinned_files import pinned_findings, unhashed
    from datarecs_reports.figures import counted

    run = outcome.run
    if run is None:
        return outcome
    more = tuple(pinned_findings(run, name, place))
    sizes_alone = unhashed(run, name)
    left = (f"content of {counted(sizes_alone, 'file')} of source {name}: pinned without SHA-256",)
    return _more(outcome, more, (f"pinned files of source {name}",), left if sizes_alone else ())


def _with_data(
    outcome: "Checked",
    evidence: "Evidence",
    leaves: "Sequence[Leaf]",
    key: bytes | None,
    source: tuple[str, Path],
) -> "Checked":
    """Check the rows of a source against its digests; needs the key, the plan and the files."""
    from datarecs_cli.row_proof import carried_plan, data_findings

    name, place = source
    run = outcome.run
    plan = None if run is None else carried_plan(evidence.document, run)
    if run is None or plan is None or key is None:
        reason = "--key-file is missing" if key is None else "run.json has no plan of this run"
        return _more(outcome, (), (), (f"rows of source {name}: {reason}",))
    entries = list(data_findings(run, plan, leaves, source=name, place=place, key=key))
    left = tuple(each for each in entries if isinstance(each, str))
    findings = tuple(each for each in entries if not isinstance(each, str))
    done = (f"rows of source {name} against their digests",)
    return _more(outcome, findings, done, left)


def _more(
    outcome: "Checked",
    findings: "tuple[Finding, ...]",
    checked: tuple[str, ...],
    not_checked: tuple[str, ...],
) -> "Checked":
    from dataclasses import replace

    return replace(
        outcome,
        findings=(*outcome.findings, *findings),
        checked=(*outcome.checked, *checked),
        not_checked=(*outcome.not_checked, *not_checked),
    )


def _print(file: Path, outcome: "Checked", invocation: Invocation) -> None:
    from datarecs_cli.output import cell, print_json

    proof_hash = outcome.run.proof_hash if outcome.run else None
    if invocation.is_json:
        print_json(
            "verify",
            {
                "verified": not outcome.findings,
                "file": str(file),
                "proof_hash": proof_hash,
                "findings": [
                    {
                        "check": each.check,
                        "stage": each.stage,
                        "source": each.source,
                        "message": each.message,
                    }
                    for each in outcome.findings
                ],
                "checked": list(outcome.checked),
                "not_checked": list(outcome.not_checked),
            },
        )
        return
    print(f"{'DIFFERS' if outcome.findings else 'VERIFIED'}  {cell(str(file))}")
    for each in outcome.findings:
        stage = f"stage {cell(each.stage)}: " if each.stage else ""
        print(f"  differs      {each.check}: {stage}{cell(each.message)}")
    for line in outcome.checked:
        print(f"  checked      {cell(line)}")
    for line in outcome.not_checked:
        print(f"  not checked  {cell(line)}")
    if proof_hash is not None and not outcome.findings:
        print(f"  proof        {cell(proof_hash)}")
