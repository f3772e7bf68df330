"""`datarecs init`: writes a first job for two files or tables, for a person to correct."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import Output, UsageFault, current

if TYPE_CHECKING:
    from datarecs_cli.inference.writing import Proposal


def init(
    left: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="the reference: a file, folder, pattern, or CONNECTION:TABLE of PostgreSQL",
        ),
    ],
    right: Annotated[
        str, typer.Argument(metavar="B", help="the source to compare with it, in the same form")
    ],
    *,
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="A=B", help="columns of the key, such as id=TradeRef,line"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="file to write; default A-vs-B.recon.yaml")
    ] = None,
    connections: Annotated[
        Path | None, typer.Option(help="file that declares connections; default connections.yaml")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="replace an existing file")] = False,
) -> ExitCode:
    """Write a job for two files or tables, with a comment on every choice."""
    from datarecs_cli.declared_files import check_files, refuse_faults
    from datarecs_cli.inference.proposing import Request, propose
    from datarecs_cli.inference.writing import job_yaml
    from datarecs_cli.saving import save

    invocation = current()
    if invocation.output not in (None, Output.TABLE, Output.TEXT, Output.JSON):
        raise UsageFault(f"-o {invocation.output} is not a format of this command")
    if out is not None:
        _refuse_existing(out, force=force)
    request = Request(
        places=(left, right), keys=_keys(key or []), target=out, connections=connections
    )
    proposal, variables = propose(request, invocation)
    target = out or Path(f"{proposal.name}.recon.yaml")
    _refuse_existing(target, force=force)
    save(target, job_yaml(proposal).encode())
    if refuse_faults(check_files([str(target)]), invocation):
        return ExitCode.USAGE
    _print(proposal, target, variables)
    return ExitCode.DONE


def _refuse_existing(target: Path, *, force: bool) -> None:
    if target.is_dir():
        raise UsageFault(f"{target} is a folder; name a file with --out")
    if target.exists() and not force:
        raise UsageFault(
            f"{target} exists; name another file with --out, or replace it with --force"
        )


def _keys(written: list[str]) -> tuple[tuple[str, str], ...]:
    """`id=TradeRef`, or `id` if both sources use this name; several are separated by commas."""
    pairs = []
    for each in ",".join(written).split(",") if written else []:
        one, equals, other = each.strip().partition("=")
        if not one or (equals and not other):
            raise UsageFault(f"--key {each}: write NAME, or NAME_IN_A=NAME_IN_B")
        pairs.append((one, other or one))
    return tuple(pairs)


def _print(proposal: "Proposal", target: Path, variables: tuple[str, ...]) -> None:
    from datarecs_cli.output import cell, print_json

    command = f"datarecs compare {target}"
    if current().is_json:
        print_json("init", {**_members(proposal), "file": str(target), "next": command})
        return
    for label, text in _decisions(proposal):
        print(f"{label:<9} {cell(text)}")
    print(f"written   {target}")
    for variable in variables:
        print(f"first     export {variable}='the password'")
    print(f"next      {command}")


def _members(proposal: "Proposal") -> dict[str, object]:
    return {
        "key": [[each.left.name, each.right.name] for each in proposal.key.pairs],
        "measures": [
            {
                "name": each.pair.left.name,
                "of_second": each.pair.right.name,
                "tolerance": None if each.tolerance is None else list(each.tolerance),
                "reason": each.reason,
            }
            for each in proposal.measures
        ],
        "not_compared": [list(names) for names in proposal.alone],
    }


def _decisions(proposal: "Proposal") -> Iterator[tuple[str, str]]:
    """The choices with their reasons."""
    from datarecs_cli.inference.writing import key_words, pair_words, read_words

    for sample in proposal.samples:
        yield "read", read_words(sample)
        for option, reason in (sample.form.reasons if sample.form else {}).items():
            yield "", f"{option}: {reason}"
    for line in key_words(proposal.key):
        yield "key", line.removeprefix("key ")
    for line in pair_words([*proposal.key.pairs, *(each.pair for each in proposal.measures)]):
        yield "pair", line
    for each in proposal.measures:
        tolerance = " ".join(each.tolerance or ("EXACT",))
        yield "measure", f"{each.pair.left.name} {tolerance}: {each.reason}"
    yield from _left_out(proposal)


def _left_out(proposal: "Proposal") -> Iterator[tuple[str, str]]:
    """The columns that are not compared, with their reasons."""
    from datarecs_cli.inference.writing import reasons_alone

    if not proposal.measures:
        yield "measure", "none: no further column is in both sources, so only keys are compared"
    for sample, names in zip(proposal.samples, proposal.alone, strict=True):
        for reason, left_out in reasons_alone(proposal, names):
            yield "left out", f"{', '.join(left_out)} of {sample.source.name}: {reason}"
